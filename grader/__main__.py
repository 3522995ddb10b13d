"""The instructor's command line: `python -m grader COMMAND`. The commands stand in grader/commands."""

import grader.commands  # noqa: F401  where each registers itself
from grader.command_line import app

if __name__ == "__main__":
    app()
