"""The first lines of each kernel in a lab without Triton, where cells import Triton before they import the course."""

import tritontrace  # noqa: F401 - it stands in for Triton
