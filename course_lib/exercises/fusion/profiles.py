"""Profiles to read: which limit does each of four kernels meet?"""

from __future__ import annotations

from course_lib.catalogue import say
from course_lib.criteria import Correct
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.hardware.profiles import Card, RecordedProfile, card, profiles

HALF = 0.5  # of what the card does at best: nothing else takes as long


def limit(profile: RecordedProfile, of: Card) -> str:
    """Name what limits a profile: whatever takes at least half of its time at the card's peak; else what keeps all of it waiting."""
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
    """Return the limit of each profile, by its letter."""
    return {letter: limit(profile, card()) for letter, profile in profiles().items()}


read_profiles = Exercise(
    id="fusion.read_profiles",
    signature="limited_by: dict[str, str]",
    kind="values",
    effort=Effort(minutes=10, lines=4, difficulty=3),
    track="more",
    cases=[fixed("four profiles", "plain")],
    oracle=limits,
    criteria=[Correct("plain", 4, say("fusion.read_profiles.title_plain"))],
)
