"""What an op declares: named inputs with symbolic shapes, dims, dtypes, parameters, reference, contract."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gpuemu.dtypes import get_dtype
from gpuemu.errors import OpDefinitionError
from gpuemu.model import expression
from gpuemu.model.canonical import digest
from gpuemu.model.contract import DEFAULT_CONTRACT, LAYOUTS, Contract
from gpuemu.model.profile import get_profile

__all__ = ["LAYOUTS", "Contract", "Dim", "Op", "Recovered", "Tensor"]


@dataclass(frozen=True)
class Dim:
    """The domain of a symbolic dimension: low <= size <= high, a multiple of `multiple_of`.

    `candidates` replaces the range by an explicit list. `batch` says that elements along this dim are computed
    independently of each other, so a larger size only adds programs: where programs are dear (Triton's
    interpreter), the planner keeps such dims small.
    """

    low: int = 1
    high: int = 4096
    multiple_of: int = 1
    candidates: tuple[int, ...] = ()
    batch: bool = False

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, self.multiple_of, *self.candidates)
        if any(type(number) is not int for number in numbers):
            raise OpDefinitionError(f"Dim{numbers}: sizes must be integers")
        if self.low < 0 or self.high < self.low or self.multiple_of < 1:
            raise OpDefinitionError(
                f"Dim({self.low}, {self.high}, multiple_of={self.multiple_of}) is empty: need 0 <= low <= high"
            )

    def contains(self, size: int) -> bool:
        if self.candidates:
            return size in self.candidates
        return self.low <= size <= self.high and size % self.multiple_of == 0


@dataclass(frozen=True)
class Tensor:
    """An input: shape as space-separated dim names, integers and expressions, e.g. "B S 2*H".

    dtype: a fixed dtype for an input that does not follow the case's dtype ("int64", "bool", "float32").
    low, high: bounds of the values, low <= value < high; an expression of the dims for integers ("V").
    sentinel: a parameter's name whose value is mixed into the values (an ignore index, say).
    layouts, value_classes: names to choose from for this input alone; None takes those of the op.
    differentiable: whether a backward pass owes a gradient of it, if it is a float (a table of rotations is not
    trained). variants: (parameter, value, shape), the shape where a parameter has a value.
    """

    shape: str
    dtype: str | None = None
    low: int | float | str | None = None
    high: int | float | str | None = None
    sentinel: str | None = None
    layouts: tuple[str, ...] | None = None
    value_classes: tuple[str, ...] | None = None
    differentiable: bool = True
    variants: tuple[tuple[str, Any, str], ...] = ()

    @staticmethod
    def parse(text: str) -> Tensor:
        """A shape string, with an optional dtype after a colon: "R N : bool"."""
        shape, _, dtype = text.partition(":")
        return Tensor(shape.strip(), dtype.strip() or None)

    @cached_property
    def axes(self) -> tuple[str, ...]:
        return tuple(self.shape.split())

    @property
    def takes_value_class(self) -> bool:
        """Whether its values are drawn from a value class: a float tensor without bounds of its own."""
        is_float = self.dtype is None or get_dtype(self.dtype).is_float
        return is_float and self.low is None and self.high is None


@dataclass(frozen=True)
class Recovered:
    """A random decision of the kernel, read off its outputs and handed to the reference (ORACLE.md 2.5).

    recover: `recover(inputs, outputs, params) -> tensor`, with inputs a mapping by name and outputs a tuple: a
    dropout's mask of kept elements, a sampler's choices.
    rate: an expression of parameters and dims ("1 - p") that the share of true elements must follow, tested by
    the binomial distribution. among: of the same signature, the elements whose decision can be seen at all (a
    dropped zero cannot); None: every one.
    probabilities: of the same signature, for recovered indices: a tensor of their shape with one more axis, the
    probability of every choice, which the frequencies must follow.
    """

    recover: Callable[..., Any] = field(compare=False)
    rate: str | None = None
    among: Callable[..., Any] | None = field(default=None, compare=False)
    probabilities: Callable[..., Any] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Op:
    """An op: schema, reference and contract.

    `reference(*inputs, **params)` is ordinary torch code that returns a tensor or a tuple of tensors; gpuemu
    evaluates it in float64. `dims` values are `Dim`, a list of sizes, or one fixed size. `output_dtypes` names
    the dtype per output where it does not follow the case's dtype; `outputs` their shapes, as of inputs, where
    they cannot be told by running the reference. family: what it is calibrated and tabulated with.

    residual: for iterative ops, which have no single right answer (a factorisation): `residual(inputs, outputs,
    params)` gives ratios that are at most `residual_limit` for a backward stable algorithm (LAPACK's test
    ratios, `TESTING/dtest.in`: 30); it is evaluated in float64 and stands for the reference.
    recovered: random decisions, by the keyword under which the reference takes them.
    relations: names of metamorphic relations that hold (`gpuemu.oracle.metamorphic`); None takes those that the
    library knows for an op of this name.

    Raises:
        OpDefinitionError: the declaration contradicts itself.
    """

    name: str
    inputs: Mapping[str, str | Tensor]
    dims: Mapping[str, Dim | Sequence[int] | int]
    reference: Callable[..., Any] | None = field(default=None, compare=False)
    params: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    dtypes: Sequence[str] = ("float32", "float16", "bfloat16")
    constraints: Sequence[str] = ()
    contract: Contract = DEFAULT_CONTRACT
    output_dtypes: Sequence[str | None] = ()
    value_classes: Sequence[str] | None = None
    doc: str = ""
    family: str = ""
    outputs: Sequence[str] = ()
    residual: Callable[..., Any] | None = field(default=None, compare=False)
    residual_limit: float = 30.0
    recovered: Mapping[str, Recovered] = field(default_factory=dict)
    relations: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not self.name or not self.name.replace("_", "").replace(".", "").isalnum():
            raise OpDefinitionError(f"op name {self.name!r}: use letters, digits, '_' and '.'")
        if not self.inputs:
            raise OpDefinitionError(f"op {self.name!r} declares no inputs")
        if self.reference is None and self.residual is None:
            raise OpDefinitionError(f"op {self.name!r} has neither a reference nor a residual")
        self._check_names()
        if (self.residual or self.recovered) and not self.outputs:
            raise OpDefinitionError(
                f'op {self.name!r} is judged by its own outputs; declare their shapes: outputs=["N M", …]'
            )
        for dtype in self.dtypes:
            get_dtype(dtype)
            get_profile(self.contract.profile_for(dtype))
        for name, values in self.params.items():
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise OpDefinitionError(
                    f"op {self.name!r}: params[{name!r}] must be a non-empty list of values"
                )

    def _check_names(self) -> None:
        dims = self.domains
        texts = {f"inputs[{n!r}]": t.axes for n, t in self.tensors.items()}
        for name, tensor in self.tensors.items():
            for parameter, value, shape in tensor.variants:
                texts[f"inputs[{name!r}] for {parameter}={value!r}"] = tuple(shape.split())
        texts["constraints"] = tuple(self.constraints)
        texts["outputs"] = tuple(axis for text in self.outputs for axis in text.split())
        for where, parts in texts.items():
            for part in parts:
                unknown = expression.names(part) - dims.keys()
                if unknown:
                    raise OpDefinitionError(
                        f"op {self.name!r}: {where} names {sorted(unknown)} which dims does not declare; "
                        f"dims has {sorted(dims)}"
                    )
        for what in ("mutates", "aliases"):
            for name in getattr(self.contract, what):
                if name not in self.inputs:
                    raise OpDefinitionError(
                        f"op {self.name!r}: contract.{what} names {name!r}, which is no input"
                    )
        for name in self.contract.batch_invariant:
            self._check_batch_invariance(name)
        for name, decision in self.recovered.items():
            if decision.rate is not None:
                self._check_rate(name, decision.rate)

    def _check_rate(self, name: str, rate: str) -> None:
        """An expression of the small language that names parameters and dims alone."""
        where = f"op {self.name!r}: recovered[{name!r}].rate is {rate!r}"
        if not isinstance(rate, str):
            raise OpDefinitionError(f'{where}; give an expression of parameters and dims, such as "1 - p"')
        try:
            unknown = expression.names(rate) - self.dims.keys() - self.params.keys()
        except OpDefinitionError as error:
            raise OpDefinitionError(
                f"{where}: {error}; a number that is no integer goes into params and is named here"
            ) from None
        if unknown:
            raise OpDefinitionError(f"{where}, which names {sorted(unknown)}, no parameter or dim")

    def _check_batch_invariance(self, name: str) -> None:
        """A dim along which inputs can be cut: an axis of its own, and part of nothing else."""
        where = f"op {self.name!r}: contract.batch_invariant names {name!r}"
        if name not in self.domains:
            raise OpDefinitionError(f"{where}, which is no dim")
        shapes = [text for t in self.tensors.values() for text in (t.shape, *(v[2] for v in t.variants))]
        axes = [axis for text in shapes for axis in text.split()]
        if name not in axes:
            raise OpDefinitionError(f"{where}, which is no axis of an input")
        limits = [limit for tensor in self.tensors.values() for limit in (tensor.low, tensor.high)]
        mixed = [text for text in axes if text != name and name in expression.names(text)]
        mixed += [text for text in limits if isinstance(text, str) and name in expression.names(text)]
        if mixed:
            raise OpDefinitionError(f"{where}, but {mixed[0]!r} depends on it: no part can be run alone")

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Inputs in call order."""
        return {n: Tensor.parse(t) if isinstance(t, str) else t for n, t in self.inputs.items()}

    @cached_property
    def domains(self) -> dict[str, Dim]:
        """Dims in declaration order, each as a `Dim`."""
        domains: dict[str, Dim] = {}
        for name, dim in self.dims.items():
            if isinstance(dim, Dim):
                domains[name] = dim
            else:
                sizes = (dim,) if isinstance(dim, int) else tuple(dim)
                if not sizes:
                    raise OpDefinitionError(f"op {self.name!r}: dims[{name!r}] is an empty list")
                domains[name] = Dim(min(sizes), max(sizes), candidates=sizes)
        return domains

    def axes_of(self, input_name: str, params: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """The axes of an input, as expressions of dims, for parameters where it has variants."""
        tensor = self.tensors[input_name]
        axes = tensor.axes
        for parameter, value, text in tensor.variants:
            if params is not None and params.get(parameter) == value:
                axes = tuple(text.split())
        return axes

    def shape_of(
        self, input_name: str, dims: Mapping[str, int], params: Mapping[str, Any] | None = None
    ) -> tuple[int, ...]:
        """The shape of an input for given dims, and parameters where it has variants."""
        shape = tuple(expression.evaluate(axis, dims) for axis in self.axes_of(input_name, params))
        if any(size < 0 for size in shape):
            raise OpDefinitionError(
                f"op {self.name!r}: input {input_name!r} gets shape {list(shape)} for {dict(dims)}; "
                "exclude it by a constraint"
            )
        return shape

    def output_shapes(self, dims: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
        """The declared shapes of the outputs for given dims; empty where none is declared."""
        return tuple(tuple(expression.evaluate(axis, dims) for axis in text.split()) for text in self.outputs)

    def admits(self, dims: Mapping[str, int]) -> bool:
        """Whether dims lie in their domains and fulfil every constraint."""
        if any(not domain.contains(dims[name]) for name, domain in self.domains.items()):
            return False
        return all(expression.evaluate(text, dims) for text in self.constraints)

    def with_dims(self, **dims: Dim | Sequence[int] | int) -> Op:
        """The same op over other dim domains."""
        return replace(self, dims={**self.dims, **dims})

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Everything but the reference, as plain JSON values."""
        return {
            "name": self.name,
            "inputs": {n: list(vars(t).values()) for n, t in self.tensors.items()},
            "dims": {
                n: [d.low, d.high, d.multiple_of, list(d.candidates), d.batch] for n, d in self.domains.items()
            },
            "params": {n: list(v) for n, v in self.params.items()},
            "dtypes": list(self.dtypes),
            "constraints": list(self.constraints),
            "output_dtypes": list(self.output_dtypes),
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 over schema, contract and what decides: reference, residual, recovered decisions.

        Of a function: its source text (its name if unreadable), plain values of its defaults and closure.
        """
        functions = [self.reference, self.residual]
        for decision in self.recovered.values():
            functions += [decision.recover, decision.among, decision.probabilities]
        texts = [_function_digest(function) for function in functions if function is not None]
        document: dict[str, Any] = {"schema": self.schema, "contract": repr(self.contract), "reference": texts}
        if self.outputs:
            rates = {name: decision.rate for name, decision in self.recovered.items()}
            document["decisions"] = [list(self.outputs), rates, self.residual_limit]
        return digest(document)


def _function_digest(function: Callable[..., Any]) -> str:
    function = inspect.unwrap(function)
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = getattr(function, "__qualname__", repr(type(function)))
    cells = getattr(function, "__closure__", None) or ()
    bound = [cell.cell_contents for cell in cells] + list(getattr(function, "__defaults__", None) or ())
    plain = [repr(value) for value in bound if isinstance(value, bool | int | float | str)]
    return hashlib.sha256("\0".join([source, *plain]).encode()).hexdigest()
