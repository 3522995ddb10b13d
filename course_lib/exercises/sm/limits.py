"""Limits of an SM: the speed of light and the watts it takes, the room for programs, and what hides a latency."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from course_lib.catalogue import say
from course_lib.criteria import Holds, Truths, correct
from course_lib.exercise import Case, Effort, Exercise, Trial
from course_lib.exercises.cases import fixed
from course_lib.exercises.sm.wrong_numbers import guessed
from course_lib.hardware.measurements import measured
from course_lib.mistakes import MistakeMatcher, miscounted
from course_lib.words import in_words
from tritontrace.gpu import datasheet

# ------------------------------------------------------------------------------------------------ the speed of light

MACS = {"H200": 2048, "A100 80GB": 1024, "T4": 512}
"""Multiply-adds of halves that the tensor cores of an SM do in a cycle; from the whitepapers of Hopper, Ampere and Turing."""


def clock_at(idle: float, switching: float, limit: float, clock: float) -> float:
    """Return the highest clock, at most `clock`, at which idle + switching * (f / clock) ** 3 watts stay within the limit, by bisection."""
    low, high = 0.0, clock
    if idle + switching <= limit:
        return clock
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if idle + switching * (middle / clock) ** 3 <= limit else (low, middle)
    return low


def two_peaks(sms: int, macs: int, clock: float, idle: float, switching: float, limit: float) -> tuple[float, float]:
    """Return (FLOP/s at that clock, FLOP/s at the clock that the watts allow), SM by SM."""
    a_cycle = sum(macs + macs for _ in range(sms))
    return a_cycle * clock, a_cycle * clock_at(idle, switching, limit, clock)


def chip(name: str, group: str, sms: int, macs: int, clock: float, switching: float, **watts: float) -> Case:
    """Make a case: a chip, and the watts that it switches at this clock, idles at, and may draw."""
    watts = {"idle": 120.0, "limit": 700.0} | watts
    return fixed(name, group, sms=sms, macs=macs, clock=clock, switching=switching, **watts)


def slowed(share: Callable[..., float], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if the second result is what this share of the clock gives, on chips that throttle."""

    def guess(sms: int, macs: int, clock: float, **watts: float) -> float:
        return 2 * sms * macs * clock * share(**watts)

    return guessed(guess, lambda **chip: two_peaks(**chip)[1], sentence, 1, "throttled")


speed_of_light = Exercise(
    id="sm.speed_of_light",
    signature="speed_of_light(sms, macs, clock, idle, switching, limit) -> (FLOP/s at this clock, FLOP/s within the limit)",
    kind="formula",
    effort=Effort(minutes=10, lines=4, difficulty=2),
    cases=[
        chip("an H200 that power does not hold back", "peak", 132, 2048, 1.83e9, 300.0),
        chip("an A100", "peak", 108, 1024, 1.41e9, 250.0, idle=60.0, limit=400.0),
        chip("exactly at the limit", "peak", 132, 2048, 1.98e9, 580.0),
        chip("an H200 at its highest clock", "throttled", 132, 2048, 1.98e9, 1100.0),
        chip("numbers that switch more", "throttled", 132, 2048, 1.98e9, 1900.0),
        chip("a card of 72 watts", "throttled", 58, 512, 2.04e9, 110.0, idle=16.0, limit=72.0),
    ],
    oracle=two_peaks,
    criteria=correct("sm.speed_of_light", {"peak": 1, "throttled": 2}),
    mistakes=[
        guessed(
            lambda sms, macs, clock, **_: sms * macs * clock,
            lambda **chip: two_peaks(**chip)[0],
            say("sm.speed_of_light.one_operation_for_a_multiply_add"),
            0,
        ),
        slowed(
            lambda idle, switching, limit: (limit / (idle + switching)) ** (1 / 3),
            say("sm.speed_of_light.idle_watts_throttle_too"),
        ),
        slowed(lambda idle, switching, limit: (limit - idle) / switching, say("sm.speed_of_light.a_straight_line")),
        slowed(
            lambda idle, switching, limit: ((limit - idle) / switching) ** 0.5,
            say("sm.speed_of_light.a_square_root"),
        ),
        guessed(
            lambda sms, macs, clock, idle, switching, limit: (
                2 * sms * macs * clock * ((limit - idle) / switching) ** (1 / 3)
            ),
            lambda **chip: two_peaks(**chip)[1],
            say("sm.speed_of_light.faster_than_the_clock"),
            1,
            "peak",
        ),
    ],
)


@cache
def facts_of_power() -> dict[str, bool]:
    """Return whether each statement on clocks and watts holds, by a datasheet and measurements on one H200."""
    found, card = measured("mystery_plot")["ceilings"], datasheet("H200")
    assert card.bf16_flops is not None
    cycle = 2 * MACS["H200"] * card.sms  # FLOPs
    zeros, random = found["zeros"]["bf16"], found["random"]["bf16"]
    third = clock_at(0.0, 2.0, 1.0, 1.0)  # of the clock, for half of the power
    return {
        "989.4 TFLOP/s need 1.83 GHz on all 132 SMs": round(card.bf16_flops / cycle / 1e9, 2) == 1.83,
        "zeros need fewer multiplications": False,
        "during the product of zeros the clock can have been 1.4 GHz": zeros / cycle <= 1.4e9,
        "during the product of random numbers the clock can have been 1.3 GHz": random / cycle <= 1.3e9,
        "half of the power for switching would leave less than 3/4 of the speed": third < 0.75,
        "watts that one SM does not use, the others may": True,
    }


power = Exercise(
    id="sm.power",
    signature="power: dict[str, bool]",
    kind="values",
    effort=Effort(minutes=8, lines=6, difficulty=2),
    cases=[fixed("six statements", "plain")],
    oracle=facts_of_power,
    criteria=[Truths(2, say("sm.power.title_truths"))],
    mistakes=[
        miscounted(
            {
                ("989.4 TFLOP/s need 1.83 GHz on all 132 SMs", False): say("sm.power.flops_of_a_cycle"),
                ("zeros need fewer multiplications", True): say("sm.power.nothing_is_skipped"),
                ("during the product of zeros the clock can have been 1.4 GHz", True): say("sm.power.too_slow"),
                ("during the product of random numbers the clock can have been 1.3 GHz", False): say(
                    "sm.power.fast_enough"
                ),
                ("half of the power for switching would leave less than 3/4 of the speed", True): say("sm.power.cube"),
                ("watts that one SM does not use, the others may", False): say("sm.power.one_limit"),
            }
        )
    ],
)

# ------------------------------------------------------------------------------------------------ occupancy

LIMITS = ("registers", "shared memory", "warps", "programs")
CARDS = ("T4", "A10G", "L4", "A100 80GB", "H200", "B200", "RTX 5090")


def rounded(amount: int, unit: int) -> int:
    """Round an amount up to a multiple of the unit, by counting."""
    return next(total for total in range(amount, amount + unit) if total % unit == 0)


@cache
def seated(registers: int, registers_of_sm: int, partitions: int, unit: int) -> int:
    """Count the warps that get registers: each goes into the partition with most registers left, until too few are left."""
    left, own = [registers_of_sm // partitions] * partitions, rounded(32 * registers, unit)
    warps = 0
    while max(left) >= own:
        left[left.index(max(left))] -= own
        warps += 1
    return warps


def room(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> dict[str, int]:
    """Return how many programs each limit lets onto an SM."""
    bytes_each = rounded(shared + gpu["reserved_bytes"], gpu["shared_unit"])
    return {
        "registers": seated(registers, gpu["registers"], gpu["partitions"], gpu["register_unit"]) // warps,
        "shared memory": gpu["shared_bytes"] // bytes_each,
        "warps": gpu["warps"] // warps,
        "programs": gpu["programs"],
    }


def as_nvidia_counts(output: Any, kernels: list[list[int]], gpu: dict[str, int]) -> str:
    """Return "" if (programs, limit) is right for each kernel, else a message on the first that is wrong."""
    for (registers, shared, warps), found in zip(kernels, output if isinstance(output, list) else [], strict=False):
        said = say("sm.occupancy.kernel", registers=registers, shared=shared, warps=warps)
        if not isinstance(found, (list, tuple)) or [type(x) for x in found] != [int, str]:
            return say("sm.occupancy.no_pair", given=said, limits=[*LIMITS], got=in_words(found))
        lets = room(registers, shared, warps, gpu)
        programs, limit = found
        if programs != min(lets.values()):
            least = min(lets, key=lets.__getitem__)
            return say("sm.occupancy.other", given=said, programs=programs, least=least, lets=lets[least])
        if lets.get(limit) != programs:
            own = (
                say("sm.occupancy.this_limit", lets=lets[limit])
                if limit in lets
                else say("sm.occupancy.no_limit", limits=[*LIMITS])
            )
            return say("sm.occupancy.other_limit", given=said, programs=programs, limit=repr(limit), why=own)
    return (
        ""
        if isinstance(output, list) and len(output) == len(kernels)
        else say("sm.occupancy.expected_pair", got=in_words(output))
    )


def kernels_by(group: str, gpu: dict[str, int]) -> Iterator[list[int]]:
    """Yield kernels, as [registers, shared, warps], for a group of cases: all registers with some numbers of warps, or all KiB, or both."""
    warps = [w for w in (1, 2, 3, 4, 7, 8, 12, 16) if w <= gpu["warps"]]
    if group == "registers":
        yield from ([r, 16, w] for r in range(16, 256) for w in warps)
    elif group == "shared memory":
        kib = gpu["shared_bytes"] >> 10
        yield from ([24, 1024 * k + extra, w] for k in range(0, kib + 2) for extra in (8, 100, 1000) for w in (2, 4))
    else:
        yield from (
            [r, 512 * s, w] for r in range(16, 256, 13) for s in (1, 3, 17, 40, 64, 97, 151, 227) for w in warps
        )


def card(name: str, group: str) -> Case:
    """Make a case: every kernel of the group on that card."""
    gpu = datasheet(name).sm_limits
    return fixed(f"{group} on a card of {name}", group, kernels=list(kernels_by(group, gpu)), gpu=gpu)


def each_is(wrong: Callable[..., int | None], sentence: str, group: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if, for each kernel of the group, the number of programs is that of `wrong`."""

    def look(trials: Sequence[Trial]) -> str:
        for trial in (t for t in trials if t.case.group == group):
            for call, out in trial.calls:
                found = [x[0] if isinstance(x, list) and x else None for x in out] if isinstance(out, list) else []
                if found != [wrong(*kernel, call["gpu"]) for kernel in call["kernels"]]:
                    return ""
        return sentence

    return look


def _but(kernel: tuple[int, int, int], gpu: dict[str, int], limit: str, lets: int) -> int:
    """The programs, if one limit let so many onto the SM."""
    return min((room(*kernel, gpu) | {limit: lets}).values())


def _one_file(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> int:
    own = rounded(32 * registers, gpu["register_unit"])
    return _but((registers, shared, warps), gpu, "registers", gpu["registers"] // (own * warps))


def _no_units(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> int:
    of_a_partition = gpu["registers"] // gpu["partitions"] // (32 * registers)
    return _but((registers, shared, warps), gpu, "registers", of_a_partition * gpu["partitions"] // warps)


def _evenly_dealt(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> int:
    of_a_partition = gpu["registers"] // gpu["partitions"] // rounded(32 * registers, gpu["register_unit"])
    return _but((registers, shared, warps), gpu, "registers", of_a_partition // -(-warps // gpu["partitions"]))


def _round_of_a_program(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> int:
    own = rounded(32 * registers * warps, gpu["register_unit"])
    return _but((registers, shared, warps), gpu, "registers", gpu["registers"] // own)


def _one_thread(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> int:
    of_a_partition = gpu["registers"] // gpu["partitions"] // rounded(registers, gpu["register_unit"])
    return _but((registers, shared, warps), gpu, "registers", of_a_partition * gpu["partitions"] // warps)


def _nothing_reserved(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> int:
    lets = gpu["shared_bytes"] // rounded(shared, gpu["shared_unit"])
    return _but((registers, shared, warps), gpu, "shared memory", lets)


def _reserved_once(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> int:
    lets = (gpu["shared_bytes"] - gpu["reserved_bytes"]) // rounded(shared, gpu["shared_unit"])
    return _but((registers, shared, warps), gpu, "shared memory", lets)


def _any_number_of_places(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> int:
    lets = room(registers, shared, warps, gpu)
    return min(lets[limit] for limit in LIMITS if limit != "programs")


def _highest(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> int:
    return max(room(registers, shared, warps, gpu).values())


def _no_shared_unit(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> int:
    lets = gpu["shared_bytes"] // (shared + gpu["reserved_bytes"])
    return _but((registers, shared, warps), gpu, "shared memory", lets)


occupancy = Exercise(
    id="sm.occupancy",
    signature="occupancy(registers: int, shared: int, warps: int, gpu: dict[str, int]) -> tuple[int, str]",
    kind="formula",
    called="for every kernel",
    effort=Effort(minutes=20, lines=12, difficulty=3),
    cases=[
        card("H200", "registers"),
        card("L4", "registers"),
        card("T4", "shared memory"),
        card("A100 80GB", "shared memory"),
        card("H200", "shared memory"),
        *(card(name, "all together") for name in CARDS),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(as_nvidia_counts, 2, say("sm.occupancy.title_registers"), "registers"),
        Holds(as_nvidia_counts, 1, say("sm.occupancy.title_shared_memory"), "shared memory"),
        Holds(as_nvidia_counts, 2, say("sm.occupancy.title_all_together"), "all together"),
    ],
    mistakes=[
        each_is(_one_file, say("sm.occupancy.one_pool_of_registers"), "registers"),
        each_is(_no_units, say("sm.occupancy.registers_without_units"), "registers"),
        each_is(_evenly_dealt, say("sm.occupancy.warps_of_programs_are_not_dealt_out"), "registers"),
        each_is(_round_of_a_program, say("sm.occupancy.rounded_for_a_program"), "registers"),
        each_is(_one_thread, say("sm.occupancy.registers_of_one_thread"), "registers"),
        each_is(_any_number_of_places, say("sm.occupancy.any_number_of_places"), "registers"),
        each_is(_highest, say("sm.occupancy.highest_limit"), "registers"),
        each_is(_no_shared_unit, say("sm.occupancy.shared_memory_without_units"), "shared memory"),
        each_is(_nothing_reserved, say("sm.occupancy.nothing_reserved"), "shared memory"),
        each_is(_reserved_once, say("sm.occupancy.nothing_reserved"), "shared memory"),
    ],
)

# ------------------------------------------------------------------------------------------------ instruction-level parallelism


def cycles_of(warps: int, chains: int, steps: int, latency: int, interval: int) -> int:
    """Simulate one scheduler and return the cycles until the last result: a pipe takes an instruction every `interval` cycles, from
    whichever chain has waited longest; a chain's next instruction is ready `latency` cycles after the previous one began."""
    ready, left = [0] * (warps * chains), [steps] * (warps * chains)
    now = done = 0
    while any(left):
        waiting = [i for i, n in enumerate(left) if n]
        i = min(waiting, key=ready.__getitem__)
        now = max(now, ready[i])
        left[i] -= 1
        ready[i] = done = now + latency
        now += interval
    return done


def warps_for(chains: int, latency: int, interval: int) -> int:
    """Return the fewest warps with which the pipe never waits, tried one after the other."""
    for warps in range(1, 10_000):
        if cycles_of(warps, chains, 3, latency, interval) == (3 * warps * chains - 1) * interval + latency:
            return warps
    raise ValueError("no number of warps is enough")


def scheduled(warps: int, chains: int, steps: int, latency: int, interval: int) -> tuple[int, int]:
    """Return both answers, cycles and warps, from the simulation."""
    return cycles_of(warps, chains, steps, latency, interval), warps_for(chains, latency, interval)


def issue(
    name: str, group: str, warps: int, chains: int, steps: int = 100, latency: int = 4, interval: int = 1
) -> Case:
    """Make a case about dependent chains of instructions on one scheduler."""
    return fixed(name, group, warps=warps, chains=chains, steps=steps, latency=latency, interval=interval)


def timed(guess: Callable[..., int], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if the cycles are those of `guess`."""
    return guessed(guess, cycles_of, sentence, 0)


def needed(guess: Callable[..., int], sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if the warps are those of `guess`."""

    def of(found: Callable[..., int]) -> Callable[..., int]:
        return lambda chains, latency, interval, **_: found(chains, latency, interval)

    return guessed(of(guess), of(warps_for), sentence, 1)


def by_rounds(of: Callable[[int, int, int, int], int]) -> Callable[..., int]:
    """Make a guess of the cycles of of(a_round, steps, latency, interval), where a_round is how long the pipe takes for one instruction
    of each chain."""
    return lambda warps, chains, steps, latency, interval: of(warps * chains * interval, steps, latency, interval)


WRONG_CYCLES = {
    "one_chain_by_itself": (by_rounds(lambda a_round, steps, latency, interval: steps * latency),),
    "one_interval_too_many": (
        by_rounds(lambda a_round, steps, latency, interval: (steps - 1) * max(latency, a_round) + a_round + latency),
    ),
    "no_last_latency": (
        by_rounds(lambda a_round, steps, latency, interval: (steps - 1) * max(latency, a_round) + a_round),
        by_rounds(lambda a_round, steps, latency, interval: (steps - 1) * max(latency, a_round) + a_round - interval),
    ),
    "the_pipe_alone": (
        by_rounds(lambda a_round, steps, latency, interval: steps * a_round - interval + latency),
        by_rounds(lambda a_round, steps, latency, interval: steps * a_round),
    ),
    "a_latency_behind_each_round": (
        by_rounds(lambda a_round, steps, latency, interval: steps * (a_round + latency)),
        by_rounds(lambda a_round, steps, latency, interval: steps * (a_round - interval + latency)),
        by_rounds(lambda a_round, steps, latency, interval: (steps - 1) * (a_round + latency) + latency),
        by_rounds(
            lambda a_round, steps, latency, interval: (steps - 1) * (a_round + latency) + a_round - interval + latency
        ),
    ),
    "interval_forgotten": (lambda **call: cycles_of(**call | {"interval": 1}),),
}
"""The id of a sentence -> the guesses of cycles that it is about."""

chains = Exercise(
    id="sm.chains",
    signature="chains_and_warps(warps, chains, steps, latency, interval) -> tuple[int, int]",
    kind="formula",
    effort=Effort(minutes=12, lines=4, difficulty=3),
    cases=[
        issue("one warp, one chain", "waits", 1, 1),
        issue("one warp, two chains", "waits", 1, 2),
        issue("three warps, one chain", "waits", 3, 1),
        issue("two warps that ask memory", "waits", 2, 4, steps=20, latency=33),
        issue("one warp, four chains", "busy", 1, 4),
        issue("eight warps, one chain", "busy", 8, 1),
        issue("eight warps, four chains", "busy", 8, 4, steps=30),
        issue("exponentials: 16 lanes per SM", "slow pipe", 2, 1, steps=50, latency=20, interval=8),
        issue("exponentials, two chains", "slow pipe", 2, 2, steps=50, latency=20, interval=8),
        issue("exponentials, another latency", "slow pipe", 1, 1, steps=50, latency=24, interval=8),
        issue("half as many lanes", "slow pipe", 3, 1, steps=40, latency=5, interval=2),
    ],
    oracle=scheduled,
    criteria=correct("sm.chains", {"waits": 1, "busy": 1, "slow pipe": 2}),
    mistakes=[
        timed(
            lambda warps, chains, steps, latency, interval: warps * chains * steps * latency,
            say("sm.chains.one_after_the_other"),
        ),
        timed(
            lambda warps, chains, steps, latency, interval: steps * max(latency, warps * chains * interval),
            say("sm.chains.whole_rounds"),
        ),
        *(timed(guess, say(f"sm.chains.{name}")) for name, guesses in WRONG_CYCLES.items() for guess in guesses),
        needed(lambda chains, latency, interval: -(-latency // interval), say("sm.chains.chains_do_not_help")),
        needed(lambda chains, latency, interval: latency // (interval * chains) + 1, say("sm.chains.one_too_many")),
        needed(lambda chains, latency, interval: -(-latency // chains), say("sm.chains.interval_forgotten")),
        needed(lambda chains, latency, interval: latency // (interval * chains), say("sm.chains.rounded_down")),
    ],
)

EXERCISES = (speed_of_light, power, occupancy, chains)
