"""Profiles to read: which limit does each of four kernels meet?"""

from __future__ import annotations

from course_lib.criteria import Correct
from course_lib.exercise import Case, Exercise
from course_lib.hardware.profiles import Card, RecordedProfile, card, profiles

HALF = 0.5  # of what the card does at best: nothing else takes as long


def limit(profile: RecordedProfile, of: Card) -> str:
    """Name what sets the time: whatever takes at least half of it at the card's best; or else what keeps all of it waiting."""
    least = {
        "memory": profile.nbytes / of.bytes_per_second,
        "arithmetic": profile.flops / of.flops_per_second,
        "tensor cores": profile.tensor_flops / of.tensor_flops_per_second,
        "the launch": profile.launches * of.least_seconds,
    }
    longest = max(least, key=lambda name: least[name])
    if least[longest] >= HALF * profile.seconds:
        return longest
    return "too few programs" if profile.programs is not None and profile.programs < of.sms else "none of these"


def limits() -> dict[str, str]:
    """The limit of each profile."""
    return {letter: limit(profile, card()) for letter, profile in profiles().items()}


read_profiles = Exercise(
    id="fusion.read_profiles",
    entry="limited_by",
    signature="limited_by: dict[str, str]",
    kind="values",
    minutes=10,
    difficulty=3,
    track="more",
    lines=4,
    cases=[Case("four profiles", "plain", lambda g: {})],
    oracle=limits,
    criteria=[Correct("plain", 4, "what limits each")],
    hints=[
        "For each profile, work out three times: its bytes at the speed of a copy, and its FLOPs of either kind at the card's best. "
        "Which of these comes near the measured time?",
        "If none of the three does, two questions are left. Does a call that does nearly nothing take as long? And do the programs "
        "suffice for all 132 SMs?",
        "In one profile, bytes at the speed of a copy take nearly all of the time. In one, float32 does. One takes as long as the "
        "smallest call. The last uses no limit for more than a tenth, and has fewer programs than there are SMs.",
    ],
)
