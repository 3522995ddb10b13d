"""Record a call of host code that launches kernels, and run its kernels again on other data, without the host code.

recording.py  calls the function and writes down what it did
replaying.py  runs that log on fresh inputs, traced
halves.py   what a log shows of the two halves of a call, where nothing is replayed
kernels.py  a kernel as plain data and back, and what it may use;  names.py  the public names of Triton and of Gluon
layouts.py  Gluon's layouts and tensor descriptors as plain data, and back
child.py    a forked process for either half
wire.py     what crosses process borders

The author is whoever wrote the function that is recorded: an error names lines of theirs.
"""

from typing import TYPE_CHECKING

from tritontrace.lazily import lazily

if TYPE_CHECKING:
    from tritontrace.replay.halves import steps
    from tritontrace.replay.kernels import HOSTS, KernelRefused, describe, key_of
    from tritontrace.replay.names import BUILTINS
    from tritontrace.replay.recording import (
        Caller,
        Mark,
        by_name,
        called,
        describe_exception,
        load,
        record,
        take_away,
        unread,
    )
    from tritontrace.replay.replaying import Tape, compile_every, compile_launched, replay

__all__ = [
    "BUILTINS",
    "HOSTS",
    "Caller",
    "KernelRefused",
    "Mark",
    "Tape",
    "by_name",
    "called",
    "compile_every",
    "compile_launched",
    "describe",
    "describe_exception",
    "key_of",
    "load",
    "record",
    "replay",
    "steps",
    "take_away",
    "unread",
]
__getattr__ = lazily(
    __name__,
    {
        "steps": "tritontrace.replay.halves",
        "BUILTINS": "tritontrace.replay.names",
        "HOSTS": "tritontrace.replay.kernels",
        "KernelRefused": "tritontrace.replay.kernels",
        "describe": "tritontrace.replay.kernels",
        "key_of": "tritontrace.replay.kernels",
        "Caller": "tritontrace.replay.recording",
        "Mark": "tritontrace.replay.recording",
        "by_name": "tritontrace.replay.recording",
        "called": "tritontrace.replay.recording",
        "describe_exception": "tritontrace.replay.recording",
        "load": "tritontrace.replay.recording",
        "record": "tritontrace.replay.recording",
        "take_away": "tritontrace.replay.recording",
        "unread": "tritontrace.replay.recording",
        "Tape": "tritontrace.replay.replaying",
        "compile_every": "tritontrace.replay.replaying",
        "compile_launched": "tritontrace.replay.replaying",
        "replay": "tritontrace.replay.replaying",
    },
)
