"""Rules of derivatives: values against torch's own float64 kernels, bounds against its float32 kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from gpuemu.ops.backward import differentiate
from gpuemu.reference.arithmetic import make_arithmetic
from gpuemu.reference.bounded import Bounded
from gpuemu.reference.dispatch import Evaluation, FollowingMode

UNIT = 2.0**-24
Function = Callable[..., torch.Tensor]


def draw(shape: tuple[int, ...], seed: int, spread: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator) * spread


def follow(
    function: Function,
    inputs: list[torch.Tensor],
    upstream: torch.Tensor,
    profile: str = "P0",
    dtype: str = "float32",
) -> tuple[tuple[Bounded, ...], Evaluation]:
    """The gradients by all float inputs, with their bounds."""
    evaluation = Evaluation(make_arithmetic(profile, dtype))
    wrapped = [evaluation.make(x.double(), None, raw=True) if x.is_floating_point() else x for x in inputs]
    above = evaluation.make(upstream.double(), None, raw=True)
    with torch.no_grad(), FollowingMode(evaluation):
        gradients: Any = differentiate(function, wrapped, [above], floats(inputs), {})
    return gradients, evaluation


def floats(inputs: list[torch.Tensor]) -> list[int]:
    return [i for i, x in enumerate(inputs) if x.is_floating_point()]


def plain(function: Function, inputs: list[torch.Tensor], upstream: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return differentiate(function, inputs, [upstream], floats(inputs), {})


def bound_of(gradient: Bounded) -> torch.Tensor:
    return torch.zeros_like(gradient.value) if gradient.error is None else gradient.error


def elementwise(function: Function) -> tuple[Function, list[torch.Tensor]]:
    return function, [draw((7, 33), 1, 4.0)]


TARGETS = torch.tensor([0, 4, -100, 2, 4])
CASES: dict[str, tuple[Function, list[torch.Tensor]]] = {
    "sigmoid": elementwise(torch.sigmoid),
    "tanh": elementwise(torch.tanh),
    "relu": elementwise(torch.relu),
    "relu6": elementwise(functional.relu6),
    "hardtanh": elementwise(functional.hardtanh),
    "clamp": elementwise(lambda x: (x * x).clamp(0.5, 4.0)),
    "hardshrink": elementwise(functional.hardshrink),
    "softshrink": elementwise(functional.softshrink),
    "leaky_relu": elementwise(functional.leaky_relu),
    "elu": elementwise(lambda x: functional.elu(x, 1.5)),
    "selu": elementwise(functional.selu),
    "celu": elementwise(lambda x: functional.celu(x, 2.0)),
    "gelu": elementwise(functional.gelu),
    "gelu_tanh": elementwise(lambda x: functional.gelu(x, approximate="tanh")),
    "silu": elementwise(functional.silu),
    "mish": elementwise(functional.mish),
    "hardsigmoid": elementwise(functional.hardsigmoid),
    "hardswish": elementwise(functional.hardswish),
    "softplus": elementwise(lambda x: functional.softplus(x, 2.0)),
    "logsigmoid": elementwise(functional.logsigmoid),
    "glu": (functional.glu, [draw((5, 12), 1)]),
    "prelu": (functional.prelu, [draw((4, 3, 5), 1), draw((3,), 2)]),
    "cumsum": (lambda x: x.cumsum(1), [draw((4, 9), 1)]),
    "softmax": (lambda x: functional.softmax(x, 1), [draw((6, 40), 1, 3.0)]),
    "log_softmax": (lambda x: functional.log_softmax(x, 1), [draw((6, 40), 1, 3.0)]),
    "logsumexp": (lambda x: x.logsumexp(1), [draw((6, 40), 1, 3.0)]),
    "layer_norm": (
        lambda x, w, b: functional.layer_norm(x, (32,), w, b),
        [draw((5, 32), 1), draw((32,), 2), draw((32,), 3)],
    ),
    "layer_norm_2d": (lambda x: functional.layer_norm(x, (4, 8)), [draw((5, 4, 8), 1)]),
    "rms_norm": (lambda x, w: functional.rms_norm(x, (32,), w, 1e-5), [draw((5, 32), 1), draw((32,), 2)]),
    "group_norm": (
        lambda x, w, b: functional.group_norm(x, 2, w, b), [draw((3, 6, 4, 5), 1), draw((6,), 2), draw((6,), 3)]
    ),
    "batch_norm": (
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        [draw((4, 3, 5), 1), draw((3,), 2), draw((3,), 3)],
    ),
    "embedding": (
        lambda i, w: functional.embedding(i, w, padding_idx=1),
        [torch.tensor([[0, 3, 3], [1, 0, 3]]), draw((5, 7), 1)],
    ),
    "embedding_by_frequency": (
        lambda i, w: functional.embedding(i, w, scale_grad_by_freq=True),
        [torch.tensor([0, 3, 3]), draw((5, 7), 1)],
    ),
    "nll_mean": (lambda x: functional.cross_entropy(x, TARGETS), [draw((5, 6), 1)]),
    "nll_weighted": (
        lambda x, w: functional.nll_loss(x, TARGETS, w.detach().abs()), [draw((5, 6), 1), draw((6,), 2)]
    ),
    "nll_none": (lambda x: functional.cross_entropy(x, TARGETS, reduction="none"), [draw((5, 6), 1)]),
    "nll_2d": (lambda x: functional.nll_loss(x, TARGETS.reshape(1, 5, 1)), [draw((1, 6, 5, 1), 1)]),
    "smoothed": (lambda x: functional.cross_entropy(x, TARGETS, label_smoothing=0.1), [draw((5, 6), 1)]),
    "mse": (functional.mse_loss, [draw((4, 5), 1), draw((4, 5), 2)]),
    "l1": (functional.l1_loss, [draw((4, 5), 1), draw((4, 5), 2)]),
    "smooth_l1": (functional.smooth_l1_loss, [draw((4, 5), 1), draw((4, 5), 2)]),
    "huber": (lambda x, y: functional.huber_loss(x, y, delta=0.7), [draw((4, 5), 1), draw((4, 5), 2)]),
    "bce": (lambda x: functional.binary_cross_entropy(torch.sigmoid(x), x.detach() > 0.5), [draw((4, 5), 1)]),
    "bce_logits": (
        lambda x, y: functional.binary_cross_entropy_with_logits(x, y.detach().sigmoid()),
        [draw((4, 5), 1), draw((4, 5), 2)],
    ),
    "conv1d": (
        lambda x, w, b: functional.conv1d(x, w, b, stride=2, padding=1, groups=2),
        [draw((2, 4, 9), 1), draw((6, 2, 3), 2), draw((6,), 3)],
    ),
    "conv2d": (functional.conv2d, [draw((2, 3, 6, 7), 1), draw((4, 3, 3, 2), 2)]),
    "conv_transpose": (functional.conv_transpose1d, [draw((2, 3, 6), 1), draw((3, 4, 3), 2)]),
    "sdpa": (functional.scaled_dot_product_attention, [draw((1, 2, 9, 8), i) for i in (1, 2, 3)]),
    "sdpa_causal": (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        [draw((1, 2, 9, 8), i) for i in (1, 2, 3)],
    ),
    "attention": (
        lambda q, k, v: functional.softmax(q @ k.mT * 8**-0.5, -1) @ v,
        [draw((9, 8), i, 2.0) for i in (1, 2, 3)],
    ),
    "max_pool": (lambda x: functional.max_pool2d(x, 3, 2), [draw((2, 3, 9, 8), 1)]),
    "avg_pool": (lambda x: functional.avg_pool2d(x, 3, 2, padding=1), [draw((2, 3, 9, 8), 1)]),
    "adaptive_avg_pool": (lambda x: functional.adaptive_avg_pool2d(x, (4, 3)), [draw((2, 3, 9, 8), 1)]),
    "nearest": (lambda x: functional.interpolate(x, scale_factor=2), [draw((2, 3, 5, 4), 1)]),
    "reflection_pad": (lambda x: functional.pad(x, (2, 1), mode="reflect"), [draw((2, 3, 5), 1)]),
    "replication_pad": (lambda x: functional.pad(x, (2, 1), mode="replicate"), [draw((2, 3, 5), 1)]),
    "unfold": (lambda x: x.unfold(1, 3, 2), [draw((4, 9), 1)]),
    "indexing": (lambda x: x[torch.tensor([0, 2, 2])], [draw((4, 9), 1)]),
    "gather": (lambda x: x.gather(1, torch.tensor([[0, 0], [3, 1]])), [draw((2, 5), 1)]),
    "slice": (lambda x: x[1:, ::2] * x[:-1, 1::2], [draw((4, 8), 1)]),
    "l2norm": (lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-12), [draw((4, 30), 1)]),
    "norm": (lambda x: x.norm(dim=1), [draw((4, 30), 1)]),
    "variance": (lambda x: x.var(1), [draw((4, 30), 1)]),
    "product": (lambda x: x.prod(1), [draw((4, 6), 1)]),
    "amax": (lambda x: x.amax(1), [draw((4, 6), 1)]),
}  # fmt: skip


def upstream_of(function: Function, inputs: list[torch.Tensor]) -> torch.Tensor:
    return draw(tuple(function(*inputs).shape), 9)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, Function, list[torch.Tensor], torch.Tensor]:
    function, inputs = CASES[request.param]
    if request.param == "bce":  # a bool target as numbers
        function = lambda x: functional.binary_cross_entropy(torch.sigmoid(x), (x.detach() > 0.5).to(x.dtype))  # noqa: E731
    return request.param, function, inputs, upstream_of(function, inputs)


def test_a_gradient_is_that_of_torchs_own_float64_kernels(case: Any) -> None:
    name, function, inputs, upstream = case
    gradients, evaluation = follow(function, inputs, upstream)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    truth = plain(function, wide, upstream.double())
    exact = 1e-11 if name != "hardsigmoid" else UNIT  # torch's own kernel holds 1/6 in float32
    for gradient, true in zip(gradients, truth, strict=True):
        assert torch.allclose(gradient.value, true, rtol=exact, atol=1e-12)
    assert not evaluation.generic


def test_float32_gradients_stay_within_a_bound_that_says_something(case: Any) -> None:
    """Every element is within it, and it is at most 2^-10 of the largest gradient."""
    _, function, inputs, upstream = case
    gradients, _ = follow(function, inputs, upstream)
    for gradient, actual in zip(gradients, plain(function, inputs, upstream), strict=True):
        bound = bound_of(gradient)
        own_rounding = gradient.value.abs() * UNIT
        assert ((actual.double() - gradient.value).abs() <= bound + own_rounding).all()
        assert bound.max() <= 2.0**-10 * max(float(gradient.value.abs().max()), 2.0**-20)


def test_a_softmax_gradient_is_bounded_by_its_share() -> None:
    """y (g - sum(y g)): elements of next to no share have next to no bound, other than their flush to zero."""
    x = torch.tensor([[0.0, 1.0, -60.0, -30.0]])
    (gradient,), _ = follow(lambda x: functional.softmax(x, 1), [x], torch.tensor([[1.0, -2.0, 3.0, 0.5]]))
    shares = functional.softmax(x.double(), 1)
    assert (bound_of(gradient) <= 300 * UNIT * shares * 5 + 1e-35).all()


def test_a_limit_within_roundings_leaves_the_gradient_on_either_side_of_it() -> None:
    """x / 3 clamped at 1: for x = 3 a kernel may find itself on either side."""
    x = torch.tensor([3.0, 2.0, 4.0, -4.0])
    (gradient,), _ = follow(lambda x: (x * (1.0 / 3.0)).clamp(-1.0, 1.0), [x], torch.full((4,), 6.0))
    assert torch.allclose(gradient.value[1:], torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64))
    bound = bound_of(gradient)
    assert bound[0] >= 2.0 and (bound[1:] < 1e-5).all()


@pytest.mark.parametrize("classes", [10, 100_000])
def test_a_cross_entropy_gradient_does_not_suffer_from_classes_that_add_zeros(classes: int) -> None:
    """The row's sum has one term whatever the number of classes; what remains is the softmax's own error."""
    x = torch.zeros(2, classes)
    target = torch.tensor([0, classes - 1])
    (gradient,), evaluation = follow(
        lambda x: functional.cross_entropy(x, target, reduction="none"), [x], torch.tensor([1.0, -2.0])
    )
    share = 1.0 / classes
    softmax_error = (evaluation.arithmetic.sum_share(classes) + 64 * UNIT) * 2
    assert float(bound_of(gradient)[:, 1].max()) <= 2 * share * softmax_error


def test_a_saturated_gelu_keeps_a_tight_gradient() -> None:
    x = torch.tensor([100.0, -100.0, 30.0])
    (gradient,), _ = follow(lambda x: functional.gelu(x, approximate="tanh"), [x], torch.ones(3))
    assert torch.allclose(gradient.value, torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64))
    assert float(bound_of(gradient).max()) < 64 * UNIT


def test_a_kink_is_unjudged_only_where_the_input_is_nan() -> None:
    x = torch.tensor([0.0, 1.0, -1.0, torch.nan])
    (gradient,), _ = follow(torch.relu, [x], torch.ones(4))
    assert gradient.value[:3].tolist() == [0.0, 1.0, 0.0]
    assert bound_of(gradient).tolist() == [0.0, 0.0, 0.0, torch.inf]


def test_a_kernel_may_read_a_16_bit_output_back_as_it_was_stored() -> None:
    """tanh's gradient from its float16 output: within P1, where operands may be rounded, and outside P0."""
    x, upstream = draw((64,), 1).half(), draw((64,), 2).half()
    y = torch.tanh(x.float()).half().float()
    kept = upstream.float() * (1 - y * y)
    for profile, within in (("P1", True), ("P0", False)):
        (gradient,), evaluation = follow(torch.tanh, [x], upstream, profile, "float16")
        distance = (kept.double() - gradient.value).abs()
        assert bool((distance <= bound_of(gradient)).all()) is within
        assert ("operand_rounding" in evaluation.permissions) is within


def flash_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, ...]:
    """As FlashAttention-2 computes it: D from the stored output, P and dS rounded for the products."""
    q32, k32, v32, g32 = (x.float() for x in (q, k, v, g))
    scale = q.shape[-1] ** -0.5
    shares = functional.softmax(q32 @ k32.mT * scale, -1)
    output = (shares.to(dtype).float() @ v32).to(dtype).float()
    total = (g32 * output).sum(-1, keepdim=True)
    by_scores = (shares * (g32 @ v32.mT - total)).to(dtype).float()
    return by_scores @ k32 * scale, by_scores.mT @ q32 * scale, shares.to(dtype).float().mT @ g32


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


@pytest.mark.parametrize("function", [functional.scaled_dot_product_attention, attention])
@pytest.mark.parametrize("centre", [0.0, 100.0])
def test_a_flash_attention_gradient_is_within_the_bound(function: Function, centre: float) -> None:
    """Also where the sums that are subtracted are large and their output is stored in 16 bits."""
    q, k, v, g = (draw((1, 1, 17, 16), i).to(torch.bfloat16) for i in range(4))
    v = (v.float() + centre).to(torch.bfloat16)
    gradients, _ = follow(function, [q, k, v], g, "P1", "bfloat16")
    for gradient, actual in zip(gradients, flash_backward(q, k, v, g, torch.bfloat16), strict=True):
        assert ((actual.double() - gradient.value).abs() <= bound_of(gradient)).all()


POOLINGS: dict[str, dict[str, Any]] = {
    "plain": {"kernel_size": 3},
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
    "dilated": {"kernel_size": 2, "stride": 1, "dilation": 2},
    "rounded up": {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    "uneven": {"kernel_size": (2, 3), "stride": (1, 2), "padding": (0, 1)},
}


@pytest.mark.parametrize("options", POOLINGS.values(), ids=POOLINGS)
def test_a_tie_of_a_pooling_leaves_its_gradient_to_any_of_the_window(options: dict[str, Any]) -> None:
    """The other choice is what torch makes of the mirrored image; where nothing ties, the gradient is exact."""
    x = torch.randint(0, 4, (1, 2, 8, 9), generator=torch.Generator().manual_seed(1)).float()
    x[..., 5:] = draw((1, 2, 8, 4), 1)

    def pool(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = functional.max_pool2d(x, **options)
        return result

    def pool_lower_places_last(x: torch.Tensor) -> torch.Tensor:
        lifted = x + torch.linspace(0, 1e-9, x.numel(), dtype=torch.float64).reshape(x.shape)
        return pool(lifted)

    upstream = upstream_of(pool, [x])
    (gradient,), _ = follow(pool, [x], upstream)
    bound = bound_of(gradient)
    for choice in (pool, pool_lower_places_last):
        (other,) = plain(choice, [x.double()], upstream.double())
        assert ((other - gradient.value).abs() <= bound + 1e-12).all()
    assert 0 < int((bound == 0).sum()) < bound.numel()
