"""Triton's front end, asked once for each kind of call.

The front end is a compiler: what it emits for `x + y` or `tl.sum(x, 1)` depends on the types and shapes of the arguments
and on constants, never on the values. So the first call of a kind is recorded as a plan, a list of builder calls, and
the calls after it replay the plan. Type checks, promotions and error messages are the front end's own, paid once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

MAX_PLANS = 5_000  # remembered at a time; a constant is a part of its plan, and some code has many
SPREADING = {"create_splat", "create_broadcast"}  # numpy spreads a smaller operand by itself
# Results that depend on nothing but the arguments: if those are constants, so is the result.
PURE = SPREADING | {"create_make_range", "create_expand_dims", "create_int_cast", "create_fp_trunc", "create_reshape"}
_UNKNOWN = object()


class Unplannable(Exception):
    """The call is not one that types and constants determine, or holds an object of an unknown kind."""


@dataclass
class _Step:
    name: str
    operands: tuple
    result: Any


class Recorder:
    """Stands in for the builder while the front end works, and notes its calls if there is a recording."""

    def __init__(self, builder: Any):
        self._builder = builder
        self.steps: list[_Step] | None = None  # of the recording; None: none is being made

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._builder, name)
        if not (name.startswith(("create_", "get_")) and callable(member)):
            return member

        def call(*operands, **options):
            steps, self.steps = self.steps, None  # what the builder itself calls is not part of the recording
            try:
                result = member(*operands, **options)
            finally:
                self.steps = steps
            if options:  # a plan passes operands by position
                self.abandon()
            elif steps is not None:
                steps.append(_Step(name, operands, result))
            return result

        setattr(self, name, call)
        return call

    def abandon(self) -> None:
        """What comes next is not determined by types."""
        self.steps = None


class Plans:
    """Calls functions of the language on tensors, from plans where it can.

    builder    does the work; the front end calls `recorder` in its place
    tensor     the class of its values;  handle  the class of the builder's
    spreads    names of builder methods to which numpy's broadcasting applies
    """

    def __init__(self, builder: Any, recorder: Recorder, tensor: type, handle: type, spreads: set[str]):
        self._builder, self._recorder = builder, recorder
        self._tensor, self._handle = tensor, handle
        self._spreads = spreads
        self._plans: dict[tuple, Callable | None] = {}
        self._constants = (type(None), int, bool, str)

    def call(self, function: Callable, args: tuple, options: dict[str, Any], run: Callable) -> Any:
        """function(*args, **options), which run(*args, **options) does the long way."""
        if self._recorder.steps is not None:
            return run(*args, **options)  # part of a call that is being recorded
        key: list = [id(function)]
        handles: list = []
        try:
            self._describe(args, key, handles)
            if options:
                key.extend(options)
                self._describe(options.values(), key, handles)
        except Unplannable:
            return run(*args, **options)
        key = tuple(key)
        plan = self._plans.get(key, _UNKNOWN)
        if plan is _UNKNOWN:
            return self._learn(key, args, options, run)
        return run(*args, **options) if plan is None else plan(handles)

    def value_asked(self) -> None:
        """Python is about to look at a value: a call that is being recorded gets no plan."""
        self._recorder.abandon()

    # ------------------------------------------------------------------------------------------------- arguments

    def _describe(self, values: Any, key: list, handles: list) -> None:
        """Append all that the front end can know of the values to `key`, and the tensors' handles to `handles`."""
        for value in values:
            kind = type(value)
            if kind is self._tensor:
                known = value.__dict__
                key.append(known.get("_kind") or self._kind_of(value))
                handles.append(known["handle"])
            elif kind in self._constants:
                key.append(kind)
                key.append(value)
            elif kind is float:
                key.append(value.hex())  # tells 0.0 from -0.0 and from 0, and makes NaN equal to itself
            elif _is_sequence(value):
                key.append((kind, len(value)))
                self._describe(value, key, handles)
            elif kind.__name__ == "constexpr":
                key.append(kind)
                self._describe((value.value,), key, handles)
            elif kind is slice:
                key.append(kind)
                self._describe((value.start, value.stop, value.step), key, handles)
            elif hasattr(value, "handle"):  # a tensor descriptor
                key.append(str(value.type))
                handles.append(value.handle)
            elif callable(value):
                key.append(_Same(value))
            elif kind.__module__.startswith("triton"):  # dtypes, enumerations, policies
                key.append((kind, str(value)))
            else:
                raise Unplannable

    def _kind_of(self, tensor: Any) -> str:
        tensor._kind = f"tensor {tensor.type}"
        return tensor._kind

    def _stand_ins(self, value: Any, handles: list) -> Any:
        """The same arguments with a handle of their own for each tensor, so that `x + x` is not taken for a rule."""
        if _is_sequence(value):
            return type(value)([self._stand_ins(part, handles) for part in value])
        if hasattr(value, "handle"):
            value = copy.copy(value)
            value.handle = copy.copy(value.handle)
            handles.append(value.handle)
        return value

    # ------------------------------------------------------------------------------------------------- learning

    def _learn(self, key: tuple, args: tuple, options: dict[str, Any], run: Callable) -> Any:
        inputs: list = []
        args = [self._stand_ins(value, inputs) for value in args]
        options = {name: self._stand_ins(value, inputs) for name, value in options.items()}
        self._recorder.steps = []
        try:
            result = run(*args, **options)
            steps = self._recorder.steps
        finally:
            self._recorder.steps = None
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        try:
            if steps is None:
                raise Unplannable
            self._plans[key] = self._plan(steps, inputs, result)
        except Unplannable:
            self._plans[key] = None
        return result

    def _plan(self, steps: list[_Step], inputs: list, result: Any) -> Callable[[list], Any]:
        """A function from the handles of the arguments to the result."""
        steps = self._without_spreading(steps, result)
        constants: list = []  # registers: constants, then inputs, then the steps' results
        places: dict[int, tuple[str, int]] = {id(handle): ("input", i) for i, handle in enumerate(inputs)}
        kept: list[tuple[_Step, list]] = []
        results = 0

        def constant(value: Any) -> tuple[str, int]:
            constants.append(value)
            return "constant", len(constants) - 1

        def place(operand: Any) -> Any:
            if id(operand) in places:
                return places[id(operand)]
            if _is_sequence(operand):
                parts = [place(part) for part in operand]
                return constant(operand) if all(map(is_constant, parts)) else parts
            if isinstance(operand, self._handle):
                raise Unplannable  # it comes from elsewhere, so it could be another one next time
            return constant(operand)

        def is_constant(placed: Any) -> bool:
            return isinstance(placed, tuple) and placed[0] == "constant"

        for step in steps:
            operands = [place(operand) for operand in step.operands]
            parts = step.result if isinstance(step.result, tuple) else (step.result,)
            pure = step.name.startswith("get_") or step.name in PURE
            if pure and all(map(is_constant, operands)):
                places.update({id(part): constant(part) for part in parts})
                continue
            places.update({id(part): ("result", results + i) for i, part in enumerate(parts) if part is not None})
            results += len(parts)
            kept.append((step, operands))

        first = {"constant": 0, "input": len(constants), "result": len(constants) + len(inputs)}

        def register(operand: Any) -> Any:
            return [register(o) for o in operand] if isinstance(operand, list) else first[operand[0]] + operand[1]

        compiled = [
            (
                getattr(self._builder, step.name),
                _picker([register(o) for o in operands]),
                isinstance(step.result, tuple),
            )
            for step, operands in kept
        ]
        make = self._maker(result, lambda handle: register(place(handle)))
        return _replayer(constants, compiled, make)

    def _without_spreading(self, steps: list[_Step], result: Any) -> list[_Step]:
        """Leave out splats and broadcasts whose users spread their operands themselves to the same shape."""
        source = {id(step.result): step for step in steps if step.name in SPREADING}

        def unspread(operand: Any) -> Any:
            while id(operand) in source:
                operand = next(o for o in source[id(operand)].operands if isinstance(o, self._handle))
            return operand

        needed: set[int] = set()

        def need(value: Any) -> None:
            if _is_sequence(value):
                for part in value:
                    need(part)
            elif hasattr(value, "handle"):
                need(value.handle)
            elif id(value) in source and id(value) not in needed:
                needed.add(id(value))
                need(source[id(value)].operands)

        need(result)
        for step in steps:
            if step.name in SPREADING:
                continue
            small = [unspread(operand) for operand in step.operands if isinstance(operand, self._handle)]
            same = step.name in self._spreads and (
                np.broadcast_shapes(*[handle.data.shape for handle in small]) == step.result.data.shape
            )
            if not same:
                need(step.operands)

        def operand_of(operand: Any) -> Any:
            return operand if id(operand) in needed else unspread(operand)

        return [
            _Step(step.name, tuple(map(operand_of, step.operands)), step.result)
            for step in steps
            if step.name not in SPREADING or id(step.result) in needed
        ]

    def _maker(self, result: Any, register: Callable[[Any], int]) -> Callable[[list], Any]:
        """A function from the registers to what the front end returned."""
        if type(result) is self._tensor:
            if result.handle is None:  # of a store
                return lambda registers: None
            if not isinstance(result.handle, self._handle):
                raise Unplannable
            self._kind_of(result)
            template = {name: value for name, value in result.__dict__.items() if name != "handle"}
            return _tensor_maker(self._tensor, template, register(result.handle))
        if _is_sequence(result):
            kind, makers = type(result), [self._maker(part, register) for part in result]
            return lambda registers: kind([make(registers) for make in makers])
        if hasattr(result, "handle"):  # a descriptor, which holds more than this
            raise Unplannable
        return lambda registers: result


def _is_sequence(value: Any) -> bool:
    """Python's lists and tuples, and Triton's own tuple; not a named one."""
    kind = type(value)
    return kind is tuple or kind is list or (kind.__name__ == "tuple" and hasattr(kind, "__iter__"))


@dataclass(frozen=True)
class _Same:
    """A key that equals only the very same object, which it keeps alive."""

    value: Any

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


def _picker(registers: list) -> Callable[[list], Any]:
    """A function from all registers to the operands of one step."""
    if any(isinstance(r, list) for r in registers):
        pickers = [_picker(r) if isinstance(r, list) else itemgetter(r) for r in registers]
        return lambda values: [pick(values) for pick in pickers]
    if len(registers) > 1:
        return itemgetter(*registers)
    return lambda values: [values[r] for r in registers]


def _tensor_maker(tensor: type, template: dict[str, Any], register: int) -> Callable[[list], Any]:
    new = tensor.__new__

    def make(registers: list) -> Any:
        made = new(tensor)
        made.__dict__.update(template)
        made.handle = registers[register]
        return made

    return make


def _replayer(constants: list, steps: list, make: Callable[[list], Any]) -> Callable[[list], Any]:
    def replay(handles: list) -> Any:
        registers = constants + handles
        for method, operands, several in steps:
            result = method(*operands(registers))
            if several:
                registers.extend(result)
            else:
                registers.append(result)
        return make(registers)

    return replay
