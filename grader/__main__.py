"""The instructor's command line: `python -m grader COMMAND`. The commands stand in grader/commands."""

import gc

# what is loaded stays, and to look for garbage among it takes a fifth of the time that torch takes
gc.set_threshold(100_000)

import grader.commands  # noqa: E402, F401  where each registers itself
from grader.command_line import app  # noqa: E402

if __name__ == "__main__":
    app()
