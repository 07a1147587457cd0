"""From an aten call to the rule that answers it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

from gpuemu.reference.arithmetic import Arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.errors import RandomReferenceError, UnsupportedReferenceError
from gpuemu.reference.extent import Extent
from gpuemu.reference.registry import FACTORIES, RULES, Call, Rule
from gpuemu.reference.rules import load_rules
from gpuemu.reference.rules.cast import permit_rounding
from gpuemu.reference.rules.generic import generic
from gpuemu.reference.selecting import SELECTORS, Selections

load_rules()


class Evaluation:
    """One run of a reference under one arithmetic.

    generic: names of the aten ops whose bound came from the generic rule, in order of first use.
    infinite_input: whether an input holds an infinity, so that not every infinity is the reference's own.
    permissions: what of the profile was made use of ("operand_rounding"), in order of first use.
    selections: which tensors hold indices that were selected by comparing values.
    extents: those of the inputs that have one, by `id`.
    writes_bools: comparisons are bounded even where nothing can flip, since autograd's formulas write into them
    (the derivative of clamp). stored_rows: within a derivative, per output o with upstream gradient g, what
    sum(|g| e) over the last dim is for the error e of o's rounding to storage.
    """

    def __init__(
        self,
        arithmetic: Arithmetic,
        infinite_input: bool = False,
        extents: Mapping[int, Extent] = MappingProxyType({}),
    ) -> None:
        self.arithmetic = arithmetic
        self.infinite_input = infinite_input
        self.extents = extents
        self.generic: dict[str, None] = {}
        self.permissions: dict[str, None] = {}
        self.selections = Selections()
        self.writes_bools = False
        self.stored_rows: list[torch.Tensor] = []

    def make(self, value: torch.Tensor, error: torch.Tensor | None = None, raw: bool = False) -> Bounded:
        """A bounded tensor of this evaluation."""
        return Bounded(self, value, error, raw)

    def as_stored(self, output: Bounded) -> Bounded:
        """An output of the op as a backward pass reads it: where operands may be rounded, from its storage."""
        if output.raw or not self._may_store:
            return output
        self.permissions["operand_rounding"] = None
        with _disable_current_modes():  # asked for by the engine of autograd, among the ops that are followed
            return permit_rounding(self.arithmetic, output, self.arithmetic.storage)

    @property
    def _may_store(self) -> bool:
        return self.arithmetic.operand_rounding and self.arithmetic.storage.bits < 32

    @contextlib.contextmanager
    def derivative(self, outputs: Sequence[Bounded], upstreams: Sequence[Bounded]) -> Iterator[None]:
        """The time in which autograd works out gradients of outputs for upstream gradients."""
        self.writes_bools = True
        with _disable_current_modes():
            for output, upstream in zip(outputs, upstreams, strict=True):
                if self._may_store and not output.raw and output.dim():
                    error = permit_rounding(self.arithmetic, output, self.arithmetic.storage).error
                    if error is not None:
                        self.stored_rows.append((upstream.value.abs() * error).sum(-1, keepdim=True))
        try:
            yield
        finally:
            self.writes_bools, self.stored_rows = False, []

    def apply(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `func` gives; every float tensor among the results is a bounded one."""
        # By identity: an overload's hash is worked out in Python, and overloads live as long as torch does.
        route = ROUTES.get(id(func)) or find_route(func)
        result = self._answer(route, func, args, kwargs)
        if route.selects or self.selections:
            self.selections.observe(func, args, kwargs, result)
        return result

    def _answer(self, route: Route, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = Call(self, func, args, kwargs)
        if not route.makes and not _holds(args, _is_bounded) and not _holds(kwargs.values(), _is_bounded):
            if _is_random(func):
                refuse_random(call)
            result = func(*args, **kwargs)
            if func._schema.is_mutable or not _holds((result,), _is_float):
                return result  # integers and bools, which are exact
        if route.rule is None:
            route.rule = RULES[func] = resolve(func)
        return route.rule(call)


@dataclass
class Route:
    """What answers an overload: its rule, None until it is needed; and whether it makes or selects."""

    func: Any
    rule: Rule | None
    makes: bool
    selects: bool


ROUTES: dict[int, Route] = {}


def find_route(func: Any) -> Route:
    """The route of an overload that has none yet. It keeps the overload alive, and so its identity."""
    route = ROUTES[id(func)] = Route(func, RULES.get(func), func in FACTORIES, func in SELECTORS)
    return route


class FollowingMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sends every aten call of a reference to one evaluation."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Asked by torch: no need to import and switch off its compiler at every call."""
        return False

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.evaluation = evaluation

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.evaluation.apply(func, args, kwargs or {})


def resolve(func: Any) -> Rule:
    """The rule for an overload that the table does not name."""
    if _is_random(func):
        return refuse_random
    if func._schema.is_mutable:
        return make_in_place_rule(func)
    if func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return decompose
    return make_table_rule(func)


def decompose(call: Call) -> Any:
    """An op that torch itself defines by simpler ones."""
    return call.func.decompose(*call.args, **call.kwargs)


def make_table_rule(func: Any) -> Rule:
    """The rule of an op that torch's decomposition table writes in simpler ones; else the generic rule."""
    from torch._decomp import decomposition_table

    decomposition = decomposition_table.get(func)
    if decomposition is None:
        return generic

    def follow(call: Call) -> Any:
        args, kwargs = tree_map(lambda x: call.follow(x) if _is_float(x) else x, (call.args, call.kwargs))
        with FollowingMode(call.evaluation):  # for tensors that the decomposition makes itself
            return decomposition(*args, **kwargs)

    return follow


def refuse_random(call: Call) -> Any:
    """Random numbers make a reference that cannot be compared with anything."""
    raise RandomReferenceError(f"the reference draws random numbers ({call.func}); make them an input")


def make_in_place_rule(func: Any) -> Rule:
    """The rule of an in-place overload: compute out of place, then write the result."""
    name = func._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None) if name.endswith("_") else None
    functional = getattr(packet, func._overloadname, None)

    def write(call: Call) -> Any:
        target = call.args[0]
        if functional is None or "out" in call.kwargs:
            raise UnsupportedReferenceError(f"{func} writes in place in a way that cannot be followed")
        if type(target) is not Bounded:
            raise UnsupportedReferenceError(
                f"{func} writes a computed value into a plain tensor, of integers or from outside"
            )
        result = call.evaluation.apply(functional, call.args, call.kwargs)
        if type(result) is Bounded:
            (result if result.base is None else result.base)._owned = False  # its memory may be taken over
            target.write(result.value, result.error, result.raw)
        else:
            target.write(result, None, raw=False)
        return target

    return write


def _is_random(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


def _is_bounded(argument: Any) -> bool:
    return type(argument) is Bounded


def _is_float(argument: Any) -> bool:
    return isinstance(argument, torch.Tensor) and argument.is_floating_point()


def _holds(arguments: Iterable[Any], test: Callable[[Any], bool]) -> bool:
    """Whether some argument, or an item of an argument that is a list, fulfils the test."""
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            if any(test(item) for item in argument):
                return True
        elif test(argument):
            return True
    return False
