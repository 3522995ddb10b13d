"""The compiler's errors as one sentence: the kernel's line, its text, and the compiler's objection."""

from __future__ import annotations

import re
import traceback

from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.runtime.errors import PTXASError

from tritontrace.compiled.places import Places

LONGEST = 300  # characters of the compiler's own words

NODES = {  # Python's names for what a kernel cannot hold
    "Break": "`break`",
    "ClassDef": "a class",
    "Continue": "`continue`",
    "Delete": "`del`",
    "Dict": "a dict",
    "DictComp": "a comprehension",
    "GeneratorExp": "a comprehension",
    "Import": "`import`",
    "ImportFrom": "`import`",
    "JoinedStr": "an f-string",
    "Lambda": "`lambda`",
    "ListComp": "a comprehension",
    "NamedExpr": "`:=`",
    "Raise": "`raise`",
    "Set": "a set",
    "SetComp": "a comprehension",
    "Try": "`try`",
    "With": "`with`",
}

# How the compiler writes types, and how people do: <['64'], fp32> is an fp32 block of [64].
SPELLINGS = (
    (r"triton\.language\.(?:core\.)?(\w+)", r"\1"),
    (r"'?constexpr\[(\w+)\]'?", r"\1"),
    (r"<\[([^\]]*)\], ([^<>]+)>", r"a block [\1] of \2"),
    (r"'(\d+)'", r"\1"),
    (r"\bfloat(\d+)\b", r"fp\1"),
    (r"pointer<(\w+)>", r"a pointer to \1"),
    (r"^\w+(?:Error|Impl)\(['\"](.*)['\"]\)$", r"\1"),
)

POWER_OF_2 = "the size of a block must be a power of 2: use triton.next_power_of_2 and a mask"
AT_COMPILE_TIME = "the size of a block must be a whole number known when compiling: a tl.constexpr parameter"
NOT_INDEXED = "a pointer is not indexed: add offsets to it, as in tl.load(x_ptr + i) and tl.store(out_ptr + i, value)"
TRUTH_OF_A_BLOCK = (
    r"Boolean value of Tensor|'scf.condition' op operand #0 must be 1-bit|simultaneous multiple comparison"
)
DOES_NOT_FIT = (
    r"blocks of \1 and \2 elements along an axis do not fit together. If they are to span a tile, one needs [:, None] and the other "
    "[None, :]"
)

PYTHON_FUNCTION = r"Unsupported function referenced: (?:<ufunc '|.*?(?:method|function) (?:\w+\.)*)(\w+)"
TL_LACKS = r"module 'triton.language' has no attribute '(\w+)'"

# The front end's functions that check their arguments without a word, and what they check.
REASONS = {
    "split": "tl.split takes a block whose last axis has 2 elements, as tl.reshape(x, (BLOCK, 2)) makes it",
    "join": "tl.join takes two blocks of one shape",
    "dot": "tl.dot adds in fp32 (or in its blocks' own dtype): give it such an `acc`, of its result's shape",
}

# The compiler speaks of itself; these say the same of the kernel. The first pattern that is found speaks.
READABLE = (
    (r"'int' object is not iterable", NOT_INDEXED),
    (
        r"Input shapes should have M >= (\d+), N >= (\d+) and K >= (\d+)",
        r"tl.dot needs blocks of at least M \1, N \2, K \3",
    ),
    (
        r"equal reduction dimensions|are not compatible for matmul",
        "tl.dot multiplies (M, K) by (K, N), and here the two K differ",
    ),
    (
        r"equal ranks >= 2|Both inputs must be either 2D or 3D",
        "tl.dot multiplies blocks of two dimensions, (M, K) by (K, N)",
    ),
    (r"Both operands must be same dtype. Got (\w+) and (\w+)", r"tl.dot needs one dtype, and got \1 and \2"),
    (r"^['\"]?(\w+) is not defined['\"]?$", r"`\1` is not defined here, or not on every path"),
    (
        r"Cannot have `return` statements inside",
        "`return` cannot stand in a loop: use a mask, or the condition of a `while`",
    ),
    (r"type <class 'tuple'> to tensor", "a tuple stands where one block is meant (is a comma in the place of `&`?)"),
    (
        r"NoneType|cannot unpack non-iterable value",
        "None stands where a value is meant (does a kernel that is called here lack its `return`, or was None passed?)",
    ),
    (r"type\(s\) for @|MatMult", "blocks have no `@`: write tl.dot(a, b)"),
    (
        r"accumulator shape is incompatible",
        "the `acc` of tl.dot(a, b, acc) must be a block with as many rows as `a` and columns as `b`: start it as tl.zeros((rows, columns), "
        "tl.float32)",
    ),
    (
        r"Mismatched type for (\w+) between then block \((.*)\) and else block \((.*)\)",
        r"`\1` is \2 after one branch and \3 after the other; make it the same in both",
    ),
    (
        r"Loop-carried variable (\w+) has initial type (.*) but is re-assigned to (a block (\[[\d, ]*\]) of .*) in loop",
        r"`\1` is \2 before the loop and \3 after one pass through it; start it as a block of that shape and dtype: tl.zeros(\4, ...)",
    ),
    (
        r"Loop-carried variable (\w+) has initial type (.*) but is re-assigned to (.*) in loop",
        r"`\1` is \2 before the loop and \3 after one pass through it; start it as what it becomes: 0.0 is fp32, and 0 is int32",
    ),
    (r"arange's arguments must be of type|Shape element \d+ must have type", AT_COMPILE_TIME),
    (r"arange's range must be a power of 2|Shape element \d+ must be a power of 2", POWER_OF_2),
    (
        r"numel \((\d+)\) exceeds triton maximum tensor numel \((\d+)\)",
        r"a block of \1 elements is too large, \2 is the most: give each program less, or loop",
    ),
    (r"incompatible dimensions at index \d+: (\d+) and (\d+)", DOES_NOT_FIT),
    (
        r"Cannot broadcast, the expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)",
        DOES_NOT_FIT,
    ),
    (
        r"Cannot broadcast, rank mismatch: (\[.*?\]), (\[.*?\])|Expected pointer argument to have shape (\[.*?\]) but got (\[.*?\])",
        r"blocks of shapes \1\3 and \2\4 do not fit together",
    ),
    (
        r"(Value|Mask) argument cannot be block type if pointer argument is not a block",
        "a block meets the address of one element: add offsets to the pointer, as ptr + tl.arange(...)",
    ),
    (r"Unsupported ptr type (.*) in `(tl\.\w+)`", r"`\2` needs a pointer and got \1: pass a tensor for it"),
    (r"unsupported tensor index", "an element of a block cannot be taken out; blocks are indexed with `:` and `None`"),
    (r"__setitem__", "an element of a block cannot be assigned: build the block with tl.where"),
    (
        r"non-constexpr conversion values",
        'an f-string needs numbers known when compiling; to print, tl.device_print("n", n)',
    ),
    (r"is not string$", 'in a kernel, print wants a text first, as in print("i", i)'),
    (
        r"'?tuple_type'? object has no attribute|'?tuple'? object has no attribute '?dtype",
        "a tuple is used as one number: pass its numbers one by one, as in x.stride(0), x.stride(1)",
    ),
    (r"__pow__|for \*\*", "blocks have no `**`: write x * x, or use tl.exp and tl.log"),
    (r"invalid operands of type (.*) and (.*)", r"this operation does not exist between \1 and \2"),
    (TL_LACKS, r"tl has no `\1`"),
    (
        r"warpgroup_mma_accumulator",
        "what mma(..., is_async=True) returns cannot be used as a block until `acc = mma_wait(n, deps=[acc])` has waited for it; if acc "
        "is carried round a loop, the wait must be inside the loop, before the use",
    ),
    (
        r"descriptor block and tensor element types must match, but got descriptor element type '?(\w+)'? and tensor element type '?(\w+)",
        r"the descriptor is of \1 and the tile of \2, and TMA does not convert: allocate the tile with the descriptor's dtype",
    ),
    (
        r"'?int'? object has no attribute '?to\b",
        "a number that is known when compiling, as an argument that is 1 is, has no `to`: write tl.cast(n, tl.int64)",
    ),
    (r"'?(\w+)'? object has no attribute '?(\w+)'?", r"a \1 has no `\2` inside a kernel"),
    (r"'append' is not in list|'extend' is not in list", "lists do not grow inside a kernel"),
    (r"only tuple comprehensions are supported", "a comprehension is not part of Triton's language"),
    (r"got an unexpected keyword argument '(\w+)'", r"this function has no parameter `\1`"),
    (r"missing (?:a|1) required (?:positional )?argument: '(\w+)'", r"the call leaves out `\1`"),
    (
        PYTHON_FUNCTION,
        r"`\1` is a Python function; a kernel calls tl's and other kernels",
    ),
    (
        r"loop of ufunc does not support|must be Tensor, not tensor",
        "a kernel calls tl's functions, not numpy's or torch's",
    ),
    (r"type <class 'torch\.Tensor'>", "tensors are not made inside a kernel: use tl.zeros or tl.full"),
    (
        r"Cannot access global variable (\w+)",
        r"`\1` is a global; a kernel sees only tl.constexpr globals: write `\1 = tl.constexpr(...)`, or pass it",
    ),
    (
        r"`_semantic` argument",
        "a pointer cannot be indexed (write tl.load(ptr + i)), and functions are called as tl.name",
    ),
    (r"active drivers|specialize argument of type: tensor", "a kernel cannot launch another: call it without a grid"),
    (r"'tt\.return'", "a kernel returns nothing: store the result with tl.store"),
    (
        r"Expected dtype \['?(\w+)'?, '?(\w+)'?\] but got (\w+)",
        r"this function takes \1 or \2 and got \3: convert first, as in x.to(tl.float32)",
    ),
    (
        r"^(\(\w+(?:, \w+)*\))$",
        r"this function is not there for \1: convert its arguments to other types",
    ),  # KeyError, of libdevice
    (r"expected last dimension to be 2 for split", REASONS["split"]),
    (r"'tt\.dot' op", "tl.dot adds in fp32 (or in its blocks' own dtype): give it such an `acc`"),
    (r"^AssertionError(?:\(\))?$", "Triton expects another dtype or shape here"),
    (
        r"tensor pointer usages inside a `scf::ForOp`",
        "a block pointer cannot be carried through a `while`: use `for`, or pointers and a mask",
    ),
    (r"PassManager::run failed|error encountered during parsing", "the compiler gave up, without a reason"),
)


# What LLVM prints of a pass that failed, whatever the reason
OF_EVERY_FAILURE = r"Failures have been detected while processing|A signal was caught while processing"
PRINTED = re.compile(rf"^(\S.*):(\d+):\d+: error: (?!{OF_EVERY_FAILURE})(.*)$", re.MULTILINE)
UNREACHABLE = re.compile(r"^(\S.*)\nUNREACHABLE executed at ", re.MULTILINE)  # the compiler knew what it does not do
# As C prints it. Of the kernel's own texts, which a failed pass prints too, none begins a line like this.
ASSERTION = re.compile(r"^[\w.+-]+: \S*?(\w+)\.(?:cpp|cc|h):\d+: .*Assertion `(.*)' failed\.$", re.MULTILINE)


def own_failure(name: str, diagnostics: str) -> str:
    """Say so if it was an assertion of the compiler's own that stopped it; diagnostics: what it printed."""
    found = ASSERTION.search(diagnostics)
    if not found:
        return ""
    return (
        f"kernel `{name}`: Triton's compiler fails by itself, at an assertion of its {found[1]}, and says nothing against the kernel. "
        "That costs nothing here; for a GPU, write the loop or the reduction in another way."
    )


def reason_of(function: str) -> str:
    """The meaning of a bare AssertionError in that function of Triton's front end."""
    return REASONS.get(function, "Triton expects another dtype or shape here")


def instead_of_truth(line: str) -> str:
    """Say what to write instead where this line asks whether a block is true."""
    if re.search(r"\btl\.(max|min)\(", line):
        return "tl.max and tl.min go along an axis of one block; of two blocks, take tl.maximum and tl.minimum."
    if re.search(r"^\W*(if|elif|while)\b|\bline \d+: `(if|elif|while)\b", line):
        return "Leave elements out with the `mask` of a load or store, or choose for each with tl.where."
    if re.search(r"[<>=]=?[^()]*[&|][^()]*[<>=]=?", line):
        return "`&` binds before `<=`: put each comparison in brackets, (a <= b) & (c > d)."
    return "Write (a) & (b) instead of `a and b` or `lo <= x < hi`, ~a instead of `not a`, tl.where instead of `x if a else y`."


def complaint(places: Places, gpu: str, error: BaseException, diagnostics: str = "") -> str:
    """One sentence on a GPU that cannot run a kernel. diagnostics: see `refusal`."""
    return f"{refusal(places, error, diagnostics)}. {gpu} cannot run this."


def refusal(places: Places, error: BaseException | None, diagnostics: str = "") -> str:
    """The kernel's line and the compiler's objection to it, in one sentence without its full stop.

    diagnostics: what the compiler printed; where a pass failed, that alone tells line and reason.
    """
    message = ""
    frames: list[tuple[str, int]] = []  # of the functions that the error went through, the kernel last
    while error is not None:
        if isinstance(error, CompilationError):
            message = error.error_message or message
            if isinstance(error.node, str):  # before there is a tree
                message = f"a compiler does not take `{error.node}` for a name: use English letters, digits and _"
            if isinstance(error, CompileTimeAssertionFailure):
                message = f"static_assert does not hold: {message}".removesuffix(": ")
            line = getattr(error.node, "lineno", None)
            if error.src and line and all(error.src != text for text, _ in frames):
                frames.insert(0, (error.src, line))
        elif isinstance(error, PTXASError):
            message = f"the assembler refused it: {_of_the_assembler(str(error))}"
        elif isinstance(error, AssertionError) and not str(error):
            message = reason_of(traceback.extract_tb(error.__traceback__)[-1].name)
        else:
            message = str(error) or type(error).__name__
        error = error.__cause__
    message = " ".join(message.split())
    place = places.of_texts(frames)
    printed = PRINTED.search(diagnostics)
    if (known := UNREACHABLE.search(diagnostics)) and not place:
        message, place = known[1], places.of_text("while ") if "scf::WhileOp" in known[1] else ""
    elif printed and not place:
        message, place = printed.group(3), places.of_lines([(printed.group(1), int(printed.group(2)))])
    if not place and (name := re.search(PYTHON_FUNCTION, message) or re.search(TL_LACKS, message)):
        # found before compiling, without a place
        place = places.of_text(f".{name.group(1)}") or places.of_text(f"{name.group(1)}(")
    where = f"kernel `{places.kernel.name}`" + (f", {place}" if place else "")
    return f"{where}: {readable(message, place)[:LONGEST].rstrip('.')}"


def _of_the_assembler(text: str) -> str:
    """The assembler's own complaint, without the command line and the names of files."""
    fatal = re.search(r"(?:fatal|error)\s+: (.*)", text)
    return fatal.group(1) if fatal else text.splitlines()[0]


def readable(message: str, line: str = "") -> str:
    """An error of Triton's front end in words that speak of the kernel; as it is if none are known. line: where it stands."""
    if re.search(TRUTH_OF_A_BLOCK, message) or (
        "`_semantic` argument" in message and re.search(r"\btl\.(max|min)\(", line)
    ):
        return f"a block of values is neither true nor false. {instead_of_truth(line)}"
    node = re.search(r"unsupported AST node type: (\w+)", message)
    if node:
        return f"{NODES.get(node.group(1), f'`{node.group(1)}`')} is not part of Triton's language"
    for pattern, spelling in SPELLINGS:
        message = re.sub(pattern, spelling, message)
    for pattern, readable in READABLE:
        found = re.search(pattern, message)
        if found:
            return found.expand(readable)
    return message
