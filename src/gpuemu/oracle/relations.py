"""The relations that the library knows, per op; on controls they raise no alarm (ORACLE.md section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch

from gpuemu.dtypes import dtype_name
from gpuemu.errors import UsageError
from gpuemu.model.op import Op
from gpuemu.oracle.metamorphic import Ask, Claim, Inputs, Relation, add_slack
from gpuemu.rounding import half_ulp

Tensor = torch.Tensor
Claims = Callable[[Ask, Inputs, Mapping[str, object]], Iterator[Claim]]
LARGEST_IDENTITY = 2048  # an identity matrix of K x K is made for a product over K

RELATIONS: dict[str, Relation] = {}
KNOWN: dict[str, tuple[str, ...]] = {}


def relation(name: str, meaning: str, *ops: str) -> Callable[[Claims], Claims]:
    """Register a relation for the ops that it is known to hold for."""

    def register(claims: Claims) -> Claims:
        RELATIONS[name] = Relation(name, meaning, claims)
        for op in ops:
            KNOWN[op] = (*KNOWN.get(op, ()), name)
        return claims

    return register


def relations_of(op: Op) -> tuple[Relation, ...]:
    """The relations of an op: those that it declares, else those known for its name.

    Raises:
        UsageError: it declares one that does not exist.
    """
    names = KNOWN.get(op.name, ()) if op.relations is None else tuple(op.relations)
    unknown = [name for name in names if name not in RELATIONS]
    if unknown:
        raise UsageError(f"op {op.name!r}: no relation {unknown[0]!r}; known: {', '.join(RELATIONS)}")
    return tuple(RELATIONS[name] for name in names)


def _first(inputs: Inputs) -> tuple[str, Tensor]:
    return next(iter(inputs.items()))


def _with(inputs: Inputs, **changes: Tensor) -> dict[str, Tensor]:
    return {name: changes.get(name, tensor) for name, tensor in inputs.items()}


def _no_slack(like: Tensor) -> Tensor:
    return torch.zeros_like(like, dtype=torch.float64)


def _order(size: int, device: torch.device) -> Tensor:
    """A fixed permutation of an axis: odd positions descending, then even ones ascending."""
    places = torch.arange(size, device=device)
    return torch.cat((places[1::2].flip(0), places[::2]))


def _is_finite(inputs: Inputs) -> bool:
    return all(bool(x.isfinite().all()) for x in inputs.values() if x.is_floating_point())


def _same(ask: Ask, before: Inputs, after: Inputs, move: Callable[[Tensor], Tensor]) -> Iterator[Claim]:
    """The outputs for `after` are those for `before`, moved."""
    one, other = ask(before), ask(after)
    for number in range(len(one.outputs)):
        slack = one.slack_of(number)
        moved = None if slack is None else move(slack)
        yield Claim(other.output(number), move(one.output(number)), add_slack(moved, other.slack_of(number)))


# --- products ------------------------------------------------------------------------------------------------


@relation("identity", "a times the identity is a", "matmul")
def identity(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    """Full-precision data against one-hot columns: wrong indices, strides, and narrowed operands show."""
    del params
    (a_name, a), (b_name, _) = inputs.items()
    if a.shape[-1] > LARGEST_IDENTITY or not bool(a.isfinite().all()):
        return
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    answer = ask({a_name: a, b_name: eye})
    slack = answer.slack_of()
    exact = _no_slack(a)
    # With bounds known, those of the profile (tf32 truncates a) less the half ulp that an exact copy needs not.
    allowed = exact if slack is None else slack - half_ulp(answer.output(), dtype_name(a.dtype))
    yield Claim(answer.output(), a.double(), allowed)


@relation("integer_product", "C x = A (B x) for integers (Freivalds, 1979)", "matmul")
def integer_product(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    """Integers in [-2, 2]: every partial sum is exact, so only the store of C may round."""
    del params
    whole = {
        name: x.double().nan_to_num(0.0).clamp(-2.0, 2.0).round().to(x.dtype) for name, x in inputs.items()
    }
    a, b = whole.values()
    answer = ask(whole)
    product = answer.output()
    vector = (torch.arange(b.shape[-1], device=b.device, dtype=torch.float64) * 37.0).remainder(127.0) - 63.0
    expected = a.double() @ (b.double() @ vector)
    store = half_ulp(product, dtype_name(a.dtype))
    store = torch.where(product.abs() < 1.0 / torch.finfo(a.dtype).eps, 0.0, store)  # integers that all fit
    yield Claim(product @ vector, expected, store @ vector.abs())


@relation("inner_permutation", "the order of the summed axis does not matter", "matmul")
def inner_permutation(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    (a_name, a), (b_name, b) = inputs.items()
    order = _order(a.shape[-1], a.device)
    moved = {a_name: a[:, order].contiguous(), b_name: b[order].contiguous()}
    yield from _same(ask, inputs, moved, lambda y: y)


@relation("transposed_product", "(A B)^T = B^T A^T", "matmul")
def transposed_product(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    (a_name, a), (b_name, b) = inputs.items()
    yield from _same(ask, inputs, {a_name: b.mT.contiguous(), b_name: a.mT.contiguous()}, lambda y: y.mT)


# --- rows ----------------------------------------------------------------------------------------------------

ROW_WISE = ("softmax", "layernorm", "rmsnorm", "l2norm", "rms_norm", "layer_norm")


@relation("column_permutation", "columns in another order give the outputs in that order", *ROW_WISE)
def column_permutation(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    """Every input has the columns as its last axis: x and, where there are some, weights."""
    del params
    size = _first(inputs)[1].shape[-1]
    order = _order(size, _first(inputs)[1].device)
    moved = {name: x[..., order].contiguous() for name, x in inputs.items()}
    yield from _same(ask, inputs, moved, lambda y: y[..., order])


@relation("row_alone", "a row alone gives what it gives among others", *ROW_WISE)
def row_alone(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    name, x = _first(inputs)
    last = _with(inputs, **{name: x[-1:, -1:].contiguous()})
    yield from _same(ask, inputs, last, lambda y: y[-1:, -1:])


@relation("sums_to_one", "each row sums to 1", "softmax")
def sums_to_one(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    answer = ask(inputs)
    slack = answer.slack_of()
    total = answer.output().sum(-1)
    yield Claim(total, torch.ones_like(total), None if slack is None else slack.sum(-1))


@relation("shift", "adding a constant to a row changes nothing", "softmax", "layernorm")
def shift(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    """Multiples of 1/8 below 16, so that adding 4 is exact in every dtype."""
    del params
    name, x = _first(inputs)
    coarse = (x.double().nan_to_num(0.0).clamp(-7.0, 7.0) * 8.0).round() / 8.0
    before = _with(inputs, **{name: coarse.to(x.dtype)})
    after = _with(inputs, **{name: (coarse + 4.0).to(x.dtype)})
    yield from _same(ask, before, after, lambda y: y)


@relation("odd", "f(-x) = -f(x)", "layernorm", "rmsnorm", "l2norm", "rms_norm", "tanh")
def odd(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    name, x = _first(inputs)
    one, other = ask(inputs), ask(_with(inputs, **{name: -x}))
    yield Claim(other.output(), -one.output(), add_slack(one.slack_of(), other.slack_of()))


@relation("unit_moments", "rows have mean 0 and, for a spread far above eps, variance 1", "layernorm")
def unit_moments(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    answer, slack = ask(inputs), ask(inputs).slack_of()
    if slack is None:
        return
    y, x = answer.output(), _first(inputs)[1].double()
    yield Claim(y.mean(-1), torch.zeros_like(y.mean(-1)), slack.mean(-1))
    variance = x.var(-1, correction=0)
    # mean(y^2) = v / (v + eps); eps is at most 1e-5 in every op that this holds for.
    missing = (1e-5 / variance).nan_to_num(nan=torch.inf)
    room = ((2.0 * y.abs() + slack) * slack).mean(-1) + missing
    yield Claim(y.square().mean(-1), torch.ones_like(room), torch.where(missing < 0.1, room, torch.inf))


# --- elementwise ---------------------------------------------------------------------------------------------

ELEMENTWISE = ("gelu", "silu", "relu", "sigmoid", "tanh", "elu", "leaky_relu", "swiglu", "geglu")


@relation("position", "an element's result does not depend on where it stands", *ELEMENTWISE)
def position(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params

    def turn(x: Tensor) -> Tensor:
        return x.reshape(-1).flip(0).reshape(x.shape)

    yield from _same(ask, inputs, {name: turn(x).contiguous() for name, x in inputs.items()}, turn)


@relation("difference", "f(x) - f(-x) = x", "gelu", "silu")
def difference(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    name, x = _first(inputs)
    one, other = ask(inputs), ask({name: -x})
    slack = add_slack(one.slack_of(), other.slack_of())
    yield Claim(one.output() - other.output(), x.double(), slack)


@relation("complement", "f(x) + f(-x) = 1", "sigmoid")
def complement(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    name, x = _first(inputs)
    one, other = ask(inputs), ask({name: -x})
    slack = add_slack(one.slack_of(), other.slack_of())
    yield Claim(one.output() + other.output(), torch.ones_like(one.output()), slack)


# --- attention -----------------------------------------------------------------------------------------------

ATTENTION = ("attention", "flash_attention")


@relation("constant_values", "values that are all 1 give 1", *ATTENTION)
def constant_values(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    answer = ask(_with(inputs, v=torch.ones_like(inputs["v"])))
    yield Claim(answer.output(), torch.ones_like(answer.output()), answer.slack_of())


@relation("key_permutation", "the order of keys with their values does not matter", *ATTENTION)
def key_permutation(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    order = _order(inputs["k"].shape[-2], inputs["k"].device)
    moved = {name: inputs[name][..., order, :].contiguous() for name in ("k", "v")}
    yield from _same(ask, inputs, _with(inputs, **moved), lambda y: y)


@relation("zero_query", "a query of zeros gives the mean of the values", *ATTENTION)
def zero_query(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    del params
    if not _is_finite(inputs):
        return
    answer = ask(_with(inputs, q=torch.zeros_like(inputs["q"])))
    mean = inputs["v"].double().mean(-2, keepdim=True).expand_as(answer.output())
    yield Claim(answer.output(), mean, answer.slack_of())


# --- losses and embeddings -----------------------------------------------------------------------------------


@relation("class_shift", "adding a constant to all logits of a row changes no loss", "cross_entropy")
def class_shift(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    yield from shift(ask, inputs, params)


@relation("probabilities", "over all targets of a row, exp(-loss) sums to 1", "cross_entropy")
def probabilities(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    """The first row, repeated once per class, with each class as its target."""
    logits = inputs["logits"]
    classes = logits.shape[-1]
    plain = params.get("reduction") == "none" and params.get("label_smoothing", 0.0) == 0.0
    if not plain or classes > LARGEST_IDENTITY or not logits.shape[0]:
        return
    target = torch.arange(classes, dtype=inputs["target"].dtype, device=logits.device)
    answer = ask({"logits": logits[:1].expand(classes, classes).contiguous(), "target": target})
    slack = answer.slack_of()
    shares = (-answer.output()).exp()
    room = None if slack is None else (shares * slack.expm1()).sum()
    yield Claim(shares.sum(), torch.ones_like(shares.sum()), room)


@relation("pairs_turn", "turning back by the negative angle restores a pair, scaled by cos^2 + sin^2", "rope")
def pairs_turn(ask: Ask, inputs: Inputs, params: Mapping[str, object]) -> Iterator[Claim]:
    """|y|^2 of a pair is |x|^2 (cos^2 + sin^2), whatever the table holds."""
    del params
    answer = ask(inputs)
    scale = inputs["cos"].double().square() + inputs["sin"].double().square()
    for number, name in enumerate(("q", "k")):
        slack = answer.slack_of(number)
        if slack is None:
            return
        y, x = answer.output(number), inputs[name].double()
        half = x.shape[-1] // 2
        room = (2.0 * y.abs() + slack) * slack
        yield Claim(
            y[..., :half].square() + y[..., half:].square(),
            (x[..., :half].square() + x[..., half:].square()) * scale,
            room[..., :half] + room[..., half:],
        )
