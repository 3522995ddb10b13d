"""Results: what was seen of a kernel and of a call, as plain data (numbers, strings, tensors).

They cross process borders and hold nothing of the code that was run: they outlive the process in which it ran.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import torch

__all__ = [
    "COUNTERS",
    "Access",
    "Between",
    "Cause",
    "CauseKind",
    "Compiled",
    "Counts",
    "Fault",
    "FaultKind",
    "Flops",
    "Footprint",
    "Hazard",
    "Launch",
    "LineFlops",
    "Multiplied",
    "Note",
    "NoteKind",
    "Operation",
    "Passes",
    "Replay",
    "Requests",
    "Saved",
    "Simulated",
    "Slow",
    "Steps",
    "Warps",
    "described",
    "tensors_of",
]

CauseKind = Literal[
    "refused",  # it uses what is not allowed
    "raised",  # an exception of the code that was called
    "stopped",  # a kernel too large or too slow for the trace
    # how a child ended that gave no answer
    "timeout",
    "asleep",
    "cpu_time",
    "memory",
    "killed",
    "crashed",
    "forbidden",
    "exited",
    "flood",
    "unreadable",
    "fault",  # what a GPU would get wrong, or might
    "compiler",  # refused by the compiler
]


@dataclass
class Cause:
    """The reason why something was lost, or is not known, as data. People read sentences that are made of it; code reads only this.

    kind       a CauseKind; who builds on this library may have kinds of their own
    where      the case, kernel or line that it is about; two equal causes are one, and are told once
    details    what else tells causes apart: of an exception {"exception": its class, "message": its words}

    >>> Cause("fault", "scale:3", {"kind": "race", "tensor": "x_ptr"}).where
    'scale:3'
    """

    kind: str
    where: str = ""
    details: dict[str, str] = field(default_factory=dict)


@dataclass
class Access:
    """Counters of one kind of access to one tensor by one source line of one launch; they add up over the programs.

    function       whose line it is: the kernel, or in Gluon a partition of it
    instructions   executions of the line, one per program and iteration
    requests       groups of 32 lanes with at least one active lane
    elements       active positions of blocks;  bytes = elements x itemsize;  masked = inactive ones
    useful_bytes   distinct bytes within each request
    sectors        32-byte sectors touched, counted per request
    l2_sectors     sectors that pass between L1 and L2. A load counts each sector once per instruction, since L1 keeps it for
                   the other requests of the same instruction. A store counts every sector, since L1 writes through
    single_bytes   the part of `bytes` moved by instructions of one element
    described_bytes  the part of `bytes` moved as tiles of a tensor descriptor
    asked_bytes    for atomics: the part of `bytes` whose old value is used, and so read
    request        the active lanes of one request, in bytes from the beginning of the tensor: of the first programs that ran
                   the line, one that touches most sectors

    >>> load = t.launches[0].accesses[0]
    >>> load.tensor, load.op, load.line, load.instructions, load.elements, load.masked
    ('x_ptr', 'load', 3, 4, 1000, 24)
    >>> load.bytes, load.sectors, load.efficiency  # 1,000 elements of 4 bytes; 125 sectors of 32
    (4000, 125, 1.0)
    >>> (load + load).bytes
    8000
    """

    tensor: str
    op: Literal["load", "store", "atomic"]
    line: int = 0  # as sentences number it: see Source.line
    source: str = ""
    instructions: int = 0
    requests: int = 0
    elements: int = 0
    bytes: int = 0
    masked: int = 0
    useful_bytes: int = 0
    sectors: int = 0
    l2_sectors: int = 0
    single_bytes: int = 0
    described_bytes: int = 0
    asked_bytes: int = 0
    request: list[int] = field(default_factory=list, repr=False, compare=False)
    function: str = ""

    @property
    def efficiency(self) -> float:
        """Return useful bytes / (32 x sectors): 1.0 when no fetched byte is thrown away."""
        return self.useful_bytes / (32 * self.sectors) if self.sectors else 1.0

    def __add__(self, other: Access) -> Access:
        sums = {name: getattr(self, name) + getattr(other, name) for name in COUNTERS}
        same = {
            name: getattr(self, name)
            for name in ("line", "source", "function")
            if getattr(self, name) == getattr(other, name)
        }
        return Access(self.tensor if self.tensor == other.tensor else "", self.op, **same, **sums)


COUNTERS = tuple(each.name for each in fields(Access) if each.type == "int" and each.name != "line")


@dataclass
class Footprint:
    """The traffic between one launch and one tensor as a whole. All numbers are bytes; `distinct` counts each byte once.

    >>> x_of_the_kernel = t.launches[0].footprints[0]
    >>> x_of_the_kernel.nbytes, x_of_the_kernel.read_bytes, x_of_the_kernel.read_distinct_bytes
    (4000, 4000, 4000)
    """

    tensor: str
    nbytes: int
    read_bytes: int = 0
    read_distinct_bytes: int = 0
    written_bytes: int = 0
    written_distinct_bytes: int = 0


FaultKind = Literal[
    "out of bounds", "misaligned", "race", "uninitialised", "undefined", "input changed", "hint", "tuning"
]

NoteKind = Literal["same values", "tf32", "int32"]

Between = Literal["", "stores", "load and store", "lanes", "threads"]


@dataclass
class Fault:
    """A fault: something that a GPU would get wrong, or might. `sentence` says what, where and what to do; it is a Message.

    between  who races: programs that store to one element ("stores"), a program that loads what another one stores, lanes of
             one store, or threads of one program, of which one loads what another one has stored
    source   what stands in that line

    >>> with trace(inputs=[y]) as with_inputs:
    ...     _ = copy[(4,)](x, y, 1000, BLOCK=256)
    >>> [(fault.kind, fault.kernel, fault.line, fault.tensor) for fault in with_inputs.faults]
    [('input changed', 'copy', 4, 'y_ptr')]
    >>> print(with_inputs.faults[0].sentence)
    kernel `copy`, line 4: ...
    """

    kind: FaultKind
    sentence: str
    kernel: str = ""
    line: int = 0
    tensor: str = ""
    between: Between = ""
    source: str = ""

    @property
    def cause(self) -> Cause:
        """Return the cause as data: which line of a kernel does what wrong, but not the program and the element that did."""
        return Cause("fault", f"{self.kernel}:{self.line}", {"kind": self.kind, "tensor": self.tensor})


@dataclass(frozen=True)
class Note:
    """A remark that is worth a sentence, on what a GPU gets right: several that store the same value to one element, or
    float32 that is multiplied as TF32; or that a GPU may get wrong: a product of int32 that wraps around on the way to an address.


    >>> Note("same values", "Programs store one value to element 0 of `y_ptr`.", "copy", 4).line
    4
    """

    kind: NoteKind
    sentence: str
    kernel: str
    line: int


@dataclass
class Flops:
    """Floating-point operations of a launch, by the unit that does them. Lanes that pad a block count; integers do not.

    dot        multiplications and additions of tl.dot: 2 M N K
    float      elementwise +, -, x, /, min, max, ...; a fused multiply-add is two
    special    exp, log, sin, sqrt, erf, ...: one each, whatever the hardware makes of it
    reduction  n - 1 for a sum, maximum or scan of n elements

    >>> Flops(dot=2 * 64 * 64 * 32) + Flops(float=64)
    Flops(dot=262144, float=64, special=0, reduction=0)
    >>> (Flops(dot=4) + Flops(float=2)).total
    6
    """

    dot: int = 0
    float: int = 0
    special: int = 0
    reduction: int = 0

    @property
    def total(self) -> int:
        return self.dot + self.float + self.special + self.reduction

    def __add__(self, other: Flops) -> Flops:
        return Flops(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Flops)))


@dataclass
class LineFlops:
    """The floating-point operations of one source line of one launch, those of the functions that it calls included.

    function   whose line it is: the kernel, or in Gluon a partition of it
    line       counted from the function's `def`, which is line 1

    >>> LineFlops("softmax", 5, "e = tl.exp(x - tl.max(x, 0))", Flops(float=64, special=64, reduction=63)).flops.total
    191
    >>> t.launches[0].line_flops  # a copy computes nothing
    []
    """

    function: str
    line: int
    source: str
    flops: Flops


@dataclass
class Hazard:
    """A concurrency fault of a Gluon kernel: a hopper.Fault as plain data.

    kind              its name: "overwritten while it is read", "wrong phase", "deadlock" (hopper/faults.py has all)
    lines             places that it is about, the earlier first: "`fetch`, line 3: `tma_load(...)`"
    buffer            the tile or barrier, as the source calls it
    who, other        the partition at the last line, and the one at the first
    phase_passed      of a wait that lets a partition go too early: the phase that was over, -1 if none was
    phase_wanted      the phase in which its data come
    waiting           of a deadlock: each partition that waits, and for what
    order             the first order in which it came to light

    >>> Hazard("deadlock", "Nobody arrives.", lines=["`fetch`, line 3: `mbarrier.wait(full, 0)`"]).cause.details
    {'kind': 'deadlock'}
    """

    kind: str
    sentence: str
    lines: list[str] = field(default_factory=list)
    buffer: str = ""
    who: str = ""
    other: str = ""
    phase_passed: int | None = None
    phase_wanted: int | None = None
    waiting: list[str] = field(default_factory=list)
    order: str = ""

    @property
    def cause(self) -> Cause:
        return Cause("fault", self.lines[-1] if self.lines else "", {"kind": self.kind})


@dataclass
class Multiplied:
    """A product on tensor cores at its issue. shape: M, N, K.

    copies, products   copies to shared memory, and other products, that were under way then
    own, stores        those of the products that its own partition had issued, and copies by TMA from shared memory

    >>> Multiplied("compute", "`compute`, line 9: `mma(a, b, acc)`", (64, 128, 64), copies=1).shape
    (64, 128, 64)
    """

    who: str
    line: str
    shape: tuple[int, int, int]
    copies: int = 0
    products: int = 0
    own: int = 0
    stores: int = 0


@dataclass
class Passes:
    """Passes of a warp through shared memory for a tile at a line, and those needed without bank conflicts; 0 where the layouts are of a
    kind that is not counted.

    >>> conflict = Passes("`turn`, line 4: `tile.load(LAYOUT)`", "load", passes=64, needed=8)
    >>> conflict.conflicts  # lanes of a warp that want one bank
    8.0
    """

    line: str
    op: Literal["load", "store"]
    passes: int
    needed: int

    @property
    def conflicts(self) -> float:
        """Return the passes divided by those needed: 1.0 without bank conflicts."""
        return self.passes / self.needed if self.needed else 1.0


@dataclass
class Requests:
    """Requests of warps at a line, as the compiler laid out their lanes. A request is one instruction of one warp.

    lane_bytes     bytes that a lane moves in one instruction, at most 16
    beside_bytes   bytes that it moves in this one and in the next ones, and that lie side by side
    joinable       whether nothing keeps the latter from being moved at once: they are aligned, and no mask cuts them
    aligned_bytes  bytes that it would move if the compiler saw multiples of 16 in place of Warps.unaligned; 0 where it was not asked
    requests, sectors   in the programs that were looked at; 32-byte sectors, counted for each request
    needed         sectors if the bytes of each request lay side by side
    apart          bytes from lane to lane, most often; 0 where all lanes want one address
    by_data        whether some addresses depend on what was computed: then sectors are those of the others

    >>> column = Requests("line 3: `x = tl.load(p)`", "load", 4, 4, requests=32, sectors=1024, needed=128, apart=4096)
    >>> column.sectors // column.requests, column.spread, column.narrow  # each lane in a sector of its own
    (32, 8.0, False)
    """

    line: str
    op: Literal["load", "store", "atomic"]
    lane_bytes: int
    beside_bytes: int
    joinable: bool = True
    requests: int = 0
    sectors: int = 0
    needed: int = 0
    apart: int = 0
    by_data: bool = False
    aligned_bytes: int = 0

    @property
    def thin(self) -> bool:
        """Whether a lane moves less than 16 bytes at once, though it moves all that lies side by side at once."""
        return self.op != "atomic" and self.lane_bytes < 16 and not self.split

    @property
    def split(self) -> bool:
        """Whether a lane moves what lies side by side in more instructions than needed."""
        return min(self.beside_bytes, 16) > self.lane_bytes

    @property
    def narrow(self) -> bool:
        """Whether the compiler would need fewer instructions if it knew more of the addresses."""
        return self.split or self.aligned_bytes > self.lane_bytes

    @property
    def strided(self) -> bool:
        """Whether lanes leave gaps between them that they do not fill themselves in their next instructions."""
        return self.apart > self.beside_bytes

    @property
    def spread(self) -> float:
        """Return the sectors that requests touch, divided by those needed: 1.0 if none is touched in vain."""
        return self.sectors / self.needed if self.needed else 1.0


@dataclass
class Warps:
    """Accesses of warps to global and shared memory, as the compiler laid out their lanes for one GPU: no GPU is needed.

    programs    how many programs were looked at: the first, the last, and others evenly between
    complaint   a sentence where the compiler refuses the kernel: then nothing is known
    requests    of each line and operation at global memory;  passes  at shared memory, in the programs that were looked at
    unaligned   the numbers and pointers among the arguments that are no multiples of 16: nothing is known of them
    whole       whether loops were followed to their end

    >>> from tritontrace import warps_for
    >>> of_a_copy = warps_for(copy, x, y, 1024, BLOCK=1024)
    >>> [(each.op, each.lane_bytes, each.requests, each.sectors) for each in of_a_copy.requests]
    [('load', 16, 8, 128), ('store', 16, 8, 128)]
    """

    kernel: str
    gpu: str
    programs: int
    complaint: str = ""
    requests: list[Requests] = field(default_factory=list)
    passes: list[Passes] = field(default_factory=list)
    unaligned: list[str] = field(default_factory=list)
    whole: bool = True


@dataclass(frozen=True)
class Slow:
    """A reason why a line is slow that its bytes do not show.

    kind    "strided": neighbouring lanes lie in different sectors;  "narrow": lanes move what lies side by side in several
            instructions;  "conflicts": lanes of a warp want one bank of shared memory
    times   the sectors, instructions or passes, by those that would do

    >>> Slow("conflicts", "line 4: `tl.store(p, tl.trans(x))`", "store", 8.0, "Lanes want one bank.").times
    8.0
    """

    kind: Literal["strided", "narrow", "conflicts"]
    line: str
    op: Literal["load", "store", "atomic"]
    times: float
    sentence: str


@dataclass(kw_only=True)
class Counts:
    """Numbers of operations of one simulated Gluon program, or of all of them.

    bytes_to_shared, bytes_from_shared   of whole tiles, as barriers count them
    tma_read, tma_written, async_read    bytes of global memory that TMA and cp.async moved: nothing outside of a tensor
    multiply_adds                        of all products on tensor cores
    threads_read, threads_read_ahead     bytes of tiles that threads loaded, and of these while a copy to shared memory was under way

    >>> (Counts(wgmma=2, multiply_adds=8192) + Counts(wgmma=1, multiply_adds=4096)).multiply_adds
    12288
    """

    barriers: int = 0
    tma_loads: int = 0
    tma_stores: int = 0
    async_copies: int = 0
    wgmma: int = 0
    fences: int = 0
    bytes_to_shared: int = 0
    bytes_from_shared: int = 0
    tma_read: int = 0
    tma_written: int = 0
    async_read: int = 0
    multiply_adds: int = 0
    threads_read: int = 0
    threads_read_ahead: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: number + getattr(other, name) for name, number in vars(self).items()})


@dataclass
class Simulated(Counts):
    """Results of simulating a Gluon launch (hopper/), of all its programs together.

    orders         how many orders it ran in
    instructions   kind ("TMA load", "TMA store", "cp.async", "wgmma") -> how many instructions of the kernel begin one
    shared_bytes   the most that a program holds
    overlapped     the part of the products beside which a copy was under way, 0 to 1
    read_ahead     the part of what threads load of tiles that they load while a copy is under way, 0 to 1
    products       as they were issued, in the first order
    beside_products   the part of the exponentials that a partition computes while a product of its own is under way, 0 to 1
    fetchers       the partitions that issue a TMA load
    restarts       lines of loops which Triton lets begin each time where they began first: hopper/restarts.py

    >>> Simulated(orders=6, instructions={"TMA load": 2}, tma_loads=32, overlapped=0.9).tma_loads
    32
    """

    orders: int
    instructions: dict[str, int] = field(default_factory=dict)
    shared_bytes: int = 0
    overlapped: float = 0.0
    beside_products: float = 0.0
    fetchers: list[str] = field(default_factory=list)
    read_ahead: float = 0.0
    products: list[Multiplied] = field(default_factory=list)
    passes: list[Passes] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)


@dataclass
class Launch:
    """One kernel launch as traced.

    accesses     of each tensor, operation and line;  footprints  of each tensor
    line_flops   of each line that computes, in the order of lines
    phase        0, or 1 in the backward half of a call "forward and backward"
    simulated    of a kernel in Gluon alone;  warps  what the compiler told, once it was asked

    >>> launch = t.launches[0]
    >>> launch.kernel, launch.grid, launch.programs, launch.flops.total, launch.busiest_bytes
    ('copy', (4, 1, 1), 4, 0, 2048)
    """

    kernel: str
    grid: tuple[int, int, int]
    programs: int = 0
    accesses: list[Access] = field(default_factory=list)
    footprints: list[Footprint] = field(default_factory=list)
    line_flops: list[LineFlops] = field(default_factory=list)
    busiest_bytes: int = 0  # of the program that moved most
    phase: int = 0
    tf32: bool = False  # a product of it reads float32 as TF32
    # parameters that no line of it uses, constants left out: with the number that each was given, None for what is no number
    unread: dict[str, float | None] = field(default_factory=dict)
    simulated: Simulated | None = None
    warps: Warps | None = None
    sampled_from: int = 0  # programs, of which `programs` alone ran, and were counted; 0: none was left out
    stopped_from: int = (
        0  # programs, of which `programs` had begun when an access that stops a GPU ended it; 0: none did
    )
    configuration: str = ""  # of an autotuned kernel, the one that ran: "BLOCK=64, num_warps=4"
    configurations: int = 0  # how many there are to choose from

    @property
    def flops(self) -> Flops:
        """Sum the floating-point operations of all lines."""
        return sum((each.flops for each in self.line_flops), Flops())


@dataclass
class Saved:
    """A tensor that the forward half of a call made and the backward half used: its whole storage.

    >>> Saved("out", nbytes=4096, shape=[32, 32]).tensor
    'out'
    """

    tensor: str  # an input's name, "out", "out[1]" or "buffer 2"
    nbytes: int
    shape: list[int] = field(default_factory=list)  # as it was first used


@dataclass
class Steps:
    """Facts about both halves of a call, read from its log; nothing is replayed (see replay/halves.py).

    kept         bytes of what the forward half made and the backward half used
    alive        most bytes that were made and used again later, at any moment of both halves
    operations   of torch's, by name, in each half
    states       for each random operation of a half the state that it drew from, as a number; equal ones were equal
    restored     the random state was the same at the end of the backward half as at its beginning

    >>> Steps(kept=4096, operations=[["mm"], ["mm", "mm"]]).operations[1]
    ['mm', 'mm']
    """

    kept: int = 0
    alive: int = 0
    operations: list[list[str]] = field(default_factory=lambda: [[], []])
    states: list[list[int]] = field(default_factory=lambda: [[], []])
    restored: bool = False


@dataclass
class Compiled:
    """The compiler's report on one kernel for one GPU architecture, made without a GPU.

    >>> from tritontrace import compile_for
    >>> found = compile_for(copy, x, y, 1000, BLOCK=256)
    >>> found.kernel, found.gpu, found.accepted, found.shared_bytes, found.spills
    ('copy', 'sm_90', True, 0, False)
    >>> sorted(found.loads)
    ['line 3: `x = tl.load(x_ptr + i, mask=i < n)`']
    """

    kernel: str
    gpu: str  # "sm_90"; "" for all, where the front end refuses the kernel
    accepted: bool
    complaint: str = ""  # a sentence with the line, if not accepted or not compiled in time
    load_bits: int = 0  # widest global load and store instruction of a thread
    store_bits: int = 0
    tensor_cores: bool = False
    shared_bytes: int = 0
    spills: bool = False
    too_slow: bool = False  # the time limit struck: nothing is known of the kernel
    crashed: bool = False  # an assertion of the compiler's own stopped it: nothing is known of the kernel either
    shared_limit: int = 0  # the most shared memory that a program may have there; 0 if unknown
    registers: int | None = None  # of a thread; None where the machine code does not tell
    spill_bytes: int | None = None  # of slow memory that a thread uses in place of registers; None likewise
    loads: dict[str, int] = field(
        default_factory=dict
    )  # "line 3: `x = tl.load(...)`" -> bits of its narrowest instruction
    stores: dict[str, int] = field(default_factory=dict)
    tensor_instructions: list[str] = field(default_factory=list)  # "wgmma.mma_async m64n64k16 f32.f16.f16"
    copies: list[str] = field(
        default_factory=list
    )  # into and out of shared memory by itself: "cp.async", "TMA load", "TMA store"
    dots: int = 0  # tl.dot operations, those of helpers included, wherever they run
    tf32_dots: list[str] = field(default_factory=list)  # places of fp32 dots that run as TF32
    to_the_end: bool = True  # False: accepted, and nothing is known of its machine code
    cases: list[str] = field(default_factory=list)  # that launched it with these dtypes and constants
    left_out: bool = False  # a configuration that a tuner leaves out on this GPU, where another one fits


@dataclass
class Operation:
    """A torch operation that moved data, by its aten name: "mm", "add_".

    >>> product = Operation("bmm", [[8, 64, 32], [8, 32, 16]], [8, 64, 16])
    >>> product.sides, product.product_flops
    ((64, 32, 16), 524288)
    """

    name: str
    shapes: list[list[int]] = field(default_factory=list)  # of its tensor arguments
    result: list[int] = field(default_factory=list)  # the shape of its first result
    dtypes: list[str] = field(default_factory=list)  # of its results: "float32"

    @property
    def sides(self) -> tuple[int, int, int]:
        """Return (M, K, N) of a matrix product, whose last two arguments are (..., M, K) and (..., K, N); 1 for what a vector lacks."""
        *_, a, b = self.shapes
        return a[-2] if len(a) > 1 else 1, a[-1], b[-1] if len(b) > 1 else 1

    @property
    def product_flops(self) -> int:
        """Return 2 M K N of a matrix product, times the batch."""
        return 2 * math.prod(self.sides) * math.prod(self.shapes[-2][:-2])


def described(x: torch.Tensor) -> list[int]:
    """Return the shape of a tensor and the bytes of an element, as numbers.

    >>> described(torch.empty(3, 5, dtype=torch.float16))
    [3, 5, 2]
    """
    return [*x.shape, x.element_size()]


def tensors_of(call: int, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Yield (storage id, name, tensor) for each tensor among a call's arguments: "0:x", or "0:xs[1]" in a list.

    Recording and replaying must agree on these ids: a log speaks of its inputs by them.

    >>> [(key, name, tuple(tensor.shape)) for key, name, tensor in tensors_of(0, {"x": x, "n": 1000})]
    [('0:x', 'x', (1000,))]
    """
    for name, value in arguments.items():
        several = isinstance(value, (list, tuple))
        for k, tensor in enumerate(value if several else [value]):
            if isinstance(tensor, torch.Tensor):
                label = f"{name}[{k}]" if several else name
                yield f"{call}:{label}", label, tensor


@dataclass
class Replay:
    """Results of replaying the calls of one log on other data. If that did not come to its end, `error` is one sentence and the rest is
    partial.

    cause: of the error, or of what is refused.
    outputs[i] is what call i returned (a tensor, a number or a tuple of them), read after the last call, so that a
    buffer shared between calls shows. They are contiguous copies; strides[i] has the strides that were returned.

    >>> Replay("M = 130", faults=[Fault("race", "Two programs store to element 0.")]).faults[0].kind
    'race'
    """

    case: str
    error: str = ""
    refused: str = ""  # one sentence if the log holds something that is not allowed
    cause: Cause | None = None
    outputs: list[Any] = field(default_factory=list)
    strides: list[Any] = field(default_factory=list)
    # of each call that was begun: what an autotuned kernel ran with, "" if with its first configuration
    configurations: list[str] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)  # of the last call
    idle: int = 0  # its launches of 0 programs, which are not among them
    operations: list[Operation] = field(default_factory=list)  # of torch, in the last call
    largest_buffer: int = 0  # bytes of the largest allocation of the last call, beyond what is returned of it
    buffers: int = 0  # bytes of all its allocations together, beyond what is returned
    saved: list[Saved] | None = None  # of the last call, where it has a backward half
    ready: list[int] = field(default_factory=list)  # results that the forward half had finished, by position
    faults: list[Fault] = field(default_factory=list)
    hazards: list[Hazard] = field(default_factory=list)  # of kernels in Gluon; the first says most
    poisoned: list[str] = field(
        default_factory=list
    )  # "kernel `k`, line 5": masked positions without `other`, and stored
    kernels: list[str] = field(default_factory=list)  # keys of the kernels launched, and of those they call
    compiled: list[Compiled] = field(default_factory=list)
