"""python -m tritontrace: the command of cli/."""

import sys

from tritontrace.cli import main

if __name__ == "__main__":
    sys.exit(main())
