"""The compiler's errors as one sentence: the kernel's line, its text, and the compiler's objection."""

from __future__ import annotations

import re
import traceback

from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.runtime.errors import PTXASError

from tritontrace.compiled.places import Places
from tritontrace.messages import Message, MessageError, message_of, say

LONGEST = 300  # characters of the compiler's own words

NODES = {  # Python's names for what a kernel cannot hold, and words for those that are no keyword
    "Break": "`break`",
    "ClassDef": say("compiler.node.class"),
    "Continue": "`continue`",
    "Delete": "`del`",
    "Dict": say("compiler.node.dict"),
    "DictComp": say("compiler.node.comprehension"),
    "GeneratorExp": say("compiler.node.comprehension"),
    "Import": "`import`",
    "ImportFrom": "`import`",
    "JoinedStr": say("compiler.node.f_string"),
    "Lambda": "`lambda`",
    "ListComp": say("compiler.node.comprehension"),
    "NamedExpr": "`:=`",
    "Raise": "`raise`",
    "Set": say("compiler.node.set"),
    "SetComp": say("compiler.node.comprehension"),
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

TRUTH_OF_A_BLOCK = (
    r"Boolean value of Tensor|'scf.condition' op operand #0 must be 1-bit|simultaneous multiple comparison"
)
PYTHON_FUNCTION = r"Unsupported function referenced: (?:<ufunc '|.*?(?:method|function) (?:\w+\.)*)(?P<name>\w+)"
TL_LACKS = r"module 'triton.language' has no attribute '(?P<name>\w+)'"

# The front end's functions that check their arguments without a word, and what they check.
REASONS = {"split": "problem.split", "join": "problem.join", "dot": "problem.dot_accumulator"}

# The compiler speaks of itself; these sentences say the same of the kernel. The first pattern that is found speaks.
READABLE = (
    (r"'int' object is not iterable", "problem.pointer_is_indexed"),
    (r"Input shapes should have M >= (?P<m>\d+), N >= (?P<n>\d+) and K >= (?P<k>\d+)", "problem.dot_of_small_blocks"),
    (r"equal reduction dimensions|are not compatible for matmul", "problem.dot_of_other_sizes"),
    (r"equal ranks >= 2|Both inputs must be either 2D or 3D", "problem.dot_of_other_ranks"),
    (r"Both operands must be same dtype. Got (?P<one>\w+) and (?P<other>\w+)", "problem.dot_of_two_dtypes"),
    (r"^['\"]?(?P<name>\w+) is not defined['\"]?$", "problem.undefined"),
    (r"Cannot have `return` statements inside", "problem.return_in_a_loop"),
    (r"type <class 'tuple'> to tensor", "problem.tuple"),
    (r"NoneType|cannot unpack non-iterable value", "problem.none"),
    (r"type\(s\) for @|MatMult", "problem.no_matmul"),
    (r"accumulator shape is incompatible", "problem.dot_accumulator_shape"),
    (
        r"Mismatched type for (?P<name>\w+) between then block \((?P<one>.*)\) and else block \((?P<other>.*)\)",
        "problem.branches_differ",
    ),
    (
        r"Loop-carried variable (?P<name>\w+) has initial type (?P<before>.*) but is re-assigned to "
        r"(?P<after>a block (?P<shape>\[[\d, ]*\]) of .*) in loop",
        "problem.loop_changes_shape",
    ),
    (
        r"Loop-carried variable (?P<name>\w+) has initial type (?P<before>.*) but is re-assigned to (?P<after>.*) in loop",
        "problem.loop_changes_type",
    ),
    (r"arange's arguments must be of type|Shape element \d+ must have type", "problem.block_size_at_run_time"),
    (r"arange's range must be a power of 2|Shape element \d+ must be a power of 2", "problem.block_size"),
    (r"numel \((?P<elements>\d+)\) exceeds triton maximum tensor numel \((?P<most>\d+)\)", "problem.block_too_large"),
    (r"incompatible dimensions at index \d+: (?P<one>\d+) and (?P<other>\d+)", "problem.blocks_do_not_fit"),
    (
        r"Cannot broadcast, the expanded size of the tensor \((?P<one>\d+)\) must match the existing size \((?P<other>\d+)\)",
        "problem.blocks_do_not_fit",
    ),
    (
        r"Cannot broadcast, rank mismatch: (?P<one>\[.*?\]), (?P<other>\[.*?\])"
        r"|Expected pointer argument to have shape (?P<pointers>\[.*?\]) but got (?P<values>\[.*?\])",
        "problem.shapes_do_not_fit",
    ),
    (r"(Value|Mask) argument cannot be block type if pointer argument is not a block", "problem.block_at_one_address"),
    (r"Unsupported ptr type (?P<type>.*) in `(?P<function>tl\.\w+)`", "problem.no_pointer"),
    (r"unsupported tensor index", "problem.element_taken"),
    (r"__setitem__", "problem.element_assigned"),
    (r"non-constexpr conversion values", "problem.f_string"),
    (r"is not string$", "problem.print"),
    (r"'?tuple_type'? object has no attribute|'?tuple'? object has no attribute '?dtype", "problem.tuple_as_a_number"),
    (r"__pow__|for \*\*", "problem.no_power"),
    (r"invalid operands of type (?P<one>.*) and (?P<other>.*)", "problem.no_operation"),
    (TL_LACKS, "problem.tl_lacks"),
    (r"warpgroup_mma_accumulator", "problem.not_waited_for"),
    (
        r"descriptor block and tensor element types must match, but got descriptor element type '?(?P<one>\w+)'? "
        r"and tensor element type '?(?P<other>\w+)",
        "problem.tma_converts",
    ),
    (r"'?int'? object has no attribute '?to\b", "problem.constant_lacks_to"),
    (r"'?(?P<type>\w+)'? object has no attribute '?(?P<name>\w+)'?", "problem.lacks"),
    (r"'append' is not in list|'extend' is not in list", "problem.list_grows"),
    (r"only tuple comprehensions are supported", "problem.comprehension"),
    (r"got an unexpected keyword argument '(?P<name>\w+)'", "problem.no_parameter"),
    (r"missing (?:a|1) required (?:positional )?argument: '(?P<name>\w+)'", "problem.argument_missing"),
    (PYTHON_FUNCTION, "problem.python_function"),
    (r"loop of ufunc does not support|must be Tensor, not tensor", "problem.numpy_function"),
    (r"type <class 'torch\.Tensor'>", "problem.tensor_made"),
    (r"Cannot access global variable (?P<name>\w+)", "problem.global"),
    (r"`_semantic` argument", "problem.pointer_or_method"),
    (r"active drivers|specialize argument of type: tensor", "problem.nested"),
    (r"'tt\.return'", "problem.returns"),
    (r"Expected dtype \['?(?P<one>\w+)'?, '?(?P<other>\w+)'?\] but got (?P<type>\w+)", "problem.dtype"),
    (r"^(?P<types>\(\w+(?:, \w+)*\))$", "problem.no_version"),  # KeyError, of libdevice
    (r"expected last dimension to be 2 for split", "problem.split"),
    (r"'tt\.dot' op", "problem.dot_accumulator_dtype"),
    (r"^AssertionError(?:\(\))?$", "problem.other_dtype_or_shape"),
    (r"tensor pointer usages inside a `scf::ForOp`", "problem.block_pointer_in_while"),
    (r"PassManager::run failed|error encountered during parsing", "problem.no_reason"),
)


# What LLVM prints of a pass that failed, whatever the reason
OF_EVERY_FAILURE = r"Failures have been detected while processing|A signal was caught while processing"
PRINTED = re.compile(rf"^(\S.*):(\d+):\d+: error: (?!{OF_EVERY_FAILURE})(.*)$", re.MULTILINE)
UNREACHABLE = re.compile(r"^(\S.*)\nUNREACHABLE executed at ", re.MULTILINE)  # the compiler knew what it does not do
# As C prints it. Of the kernel's own texts, which a failed pass prints too, none begins a line like this.
ASSERTION = re.compile(r"^[\w.+-]+: \S*?(\w+)\.(?:cpp|cc|h):\d+: .*Assertion `(.*)' failed\.$", re.MULTILINE)


def own_failure(name: str, diagnostics: str) -> str:
    """Return a message if an assertion inside the compiler failed, else "". diagnostics: what the compiler printed."""
    found = ASSERTION.search(diagnostics)
    return say("compiler.failure.own", kernel=name, part=found[1]) if found else ""


def reason_of(function: str) -> Message:
    """Return the message for a bare AssertionError in that function of Triton's front end."""
    return say(f"compiler.{REASONS.get(function, 'problem.other_dtype_or_shape')}")


def instead_of_truth(line: str) -> Message:
    """Return the advice on what to write where this line uses a block as a boolean."""
    if re.search(r"\btl\.(max|min)\(", line):
        return say("compiler.problem.truth_of_a_maximum")
    if re.search(r"^\W*(if|elif|while)\b|\bline \d+: `(if|elif|while)\b", line):
        return say("compiler.problem.truth_of_a_choice")
    if re.search(r"[<>=]=?[^()]*[&|][^()]*[<>=]=?", line):
        return say("compiler.problem.truth_of_a_comparison")
    return say("compiler.problem.truth")


def complaint(places: Places, gpu: str, error: BaseException, diagnostics: str = "") -> Message:
    """Return the message that a GPU cannot run a kernel. diagnostics: see `refusal`."""
    return say("compiler.refusal.of_a_gpu", refusal=refusal(places, error, diagnostics), gpu=gpu)


def refusal(places: Places, error: BaseException | None, diagnostics: str = "") -> Message:
    """Return the kernel's line and the compiler's objection to it, as one sentence without its full stop.

    diagnostics: what the compiler printed; where a pass failed, that alone tells line and reason.
    """
    message = ""
    frames: list[tuple[str, int]] = []  # of the functions that the error went through, the kernel last
    while error is not None:
        if isinstance(error, CompilationError):
            message = error.error_message or message
            if error.__cause__ is None and isinstance(
                error.__context__, MessageError
            ):  # an error of ours, as its repr()
                message = error.__context__.message
            if isinstance(error.node, str):  # before there is a tree
                message = say("compiler.problem.name", name=error.node)
            if isinstance(error, CompileTimeAssertionFailure):
                message = _not_held(_spelt(message))
            line = getattr(error.node, "lineno", None)
            if error.src and line and all(error.src != text for text, _ in frames):
                frames.insert(0, (error.src, line))
        elif isinstance(error, PTXASError):
            message = say("compiler.problem.assembler", words=_spelt(_of_the_assembler(str(error))))
        elif isinstance(error, AssertionError) and not str(error):
            message = reason_of(traceback.extract_tb(error.__traceback__)[-1].name)
        else:
            message = message_of(error) if message_of(error).id else str(error) or type(error).__name__
        error = error.__cause__
    place = places.of_texts(frames)
    printed = PRINTED.search(diagnostics)
    if (known := UNREACHABLE.search(diagnostics)) and not place:
        message, place = known[1], places.of_text("while ") if "scf::WhileOp" in known[1] else ""
    elif printed and not place:
        message, place = printed.group(3), places.of_lines([(printed.group(1), int(printed.group(2)))])
    if not place and (name := re.search(PYTHON_FUNCTION, message) or re.search(TL_LACKS, message)):
        # found before compiling, without a place
        place = places.of_text(f".{name.group(1)}") or places.of_text(f"{name.group(1)}(")
    return refused(places, place, message if isinstance(message, Message) else readable(message, place))


def refused(places: Places, place: str, problem: Message) -> Message:
    """Return the message of a refusal: the problem and its place in the kernel, "" if that is not known."""
    problem = Message(problem[:LONGEST].rstrip("."), problem.id, problem.parameters)
    if not place:
        return say("compiler.refusal.anywhere", kernel=places.kernel.name, problem=problem)
    return say("compiler.refusal.at", kernel=places.kernel.name, place=place, problem=problem)


def _not_held(text: str) -> Message:
    """The sentence of a static_assert, with the author's words, if there are any."""
    return say("compiler.problem.static_assert_with", text=text) if text else say("compiler.problem.static_assert")


def _of_the_assembler(text: str) -> str:
    """The assembler's own complaint, without the command line and the names of files."""
    fatal = re.search(r"(?:fatal|error)\s+: (.*)", text)
    return fatal.group(1) if fatal else text.splitlines()[0]


def _spelt(message: str) -> str:
    """A message of the compiler's in one line, with types as people write them."""
    message = " ".join(message.split())
    for pattern, spelling in SPELLINGS:
        message = re.sub(pattern, spelling, message)
    return message


def readable(message: str, line: str = "") -> Message:
    """Rewrite an error of Triton's front end in terms of the kernel; unchanged if it is not a known one. line: where it stands."""
    if re.search(TRUTH_OF_A_BLOCK, message) or (
        "`_semantic` argument" in message and re.search(r"\btl\.(max|min)\(", line)
    ):
        return instead_of_truth(line)
    node = re.search(r"unsupported AST node type: (\w+)", message)
    if node:
        return say("compiler.problem.node", node=NODES.get(node.group(1), f"`{node.group(1)}`"))
    message = _spelt(message)
    for pattern, id in READABLE:
        found = re.search(pattern, message)
        if found:
            return say(f"compiler.{id}", **found.groupdict(default=""))
    return say("compiler.problem.words", words=message)
