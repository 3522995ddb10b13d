"""The web address that the clone comes from. No file of the repository says so: the site and a release put it into what they publish."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

SETTING = "COURSE_REPOSITORY"
FORMS = (  # user and password of an address are nobody's business; a path on this machine is no address
    r"(?P<scheme>https?)://(?:[^@/]*@)?(?P<host>[\w.-]+(?::\d+)?)/(?P<path>\w[\w.~/-]*?)(?:\.git)?/?",
    r"ssh://(?:[^@/]*@)?(?P<host>[\w.-]+)(?::\d+)?/(?P<path>\w[\w.~/-]*?)(?:\.git)?/?",
    r"[\w.-]+@(?P<host>[\w.-]+):(?P<path>\w[\w.~/-]*?)(?:\.git)?/?",
)


class NoAddress(ValueError):
    """Raised where $COURSE_REPOSITORY is no address, with a message."""


def address(root: Path) -> str:
    """Return the repository's address for a browser and for `git clone`, such as https://github.com/OWNER/NAME: that of $COURSE_REPOSITORY,
    else the `origin` of the clone in `root`; "" where neither is an address on the web."""
    named = os.environ.get(SETTING)
    if named and not on_the_web(named):
        raise NoAddress(f"{SETTING}={named} is no address of a repository. One is: https://github.com/OWNER/NAME.")
    return on_the_web(_origin(root) if named is None else named)


def on_the_web(remote: str) -> str:
    """Return https://HOST/PATH for an address of a git remote, or "" for a path and whatever else has none."""
    for form in FORMS:
        if match := re.fullmatch(form, remote.strip()):
            return f"{match.groupdict().get('scheme', 'https')}://{match['host']}/{match['path']}"
    return ""


def site(repository: str) -> str:
    """Return where GitHub's pages of a repository are, by its address; "" for a repository elsewhere.

    >>> site("https://github.com/Ada/course")
    'https://ada.github.io/course'
    """
    match = re.fullmatch(r"https://github\.com/([\w-]+)/([\w.-]+)", repository)
    return f"https://{match[1].lower()}.github.io/{match[2]}" if match else ""


def _origin(root: Path) -> str:
    """Return what git says of `root`, if it is a clone and not merely a folder in one."""
    try:
        top, remote = (
            subprocess.run(["git", "-C", root, *words], capture_output=True, text=True).stdout.strip()
            for words in (("rev-parse", "--show-toplevel"), ("remote", "get-url", "origin"))
        )
    except OSError:
        return ""
    return remote if top and Path(top).resolve() == root.resolve() else ""
