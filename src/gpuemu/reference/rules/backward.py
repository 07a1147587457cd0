"""Derivatives of elementwise functions and losses, as torch's autograd calls them; g is the upstream gradient.

Each is written in the form that kernels use, so that its natural intermediates are those of the rules it is
made of (1 - y^2 for tanh, 1 + tanh for GELU).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from gpuemu.reference.bounded import Bounded
from gpuemu.reference.registry import Call, rule
from gpuemu.reference.rules.loss import MEAN
from gpuemu.reference.step import to_operand

Tensor = torch.Tensor

# Where |a| exceeds this, exp(-2|a|) is lost beside 1 in every format; tanh(a) is 1 or off by less than it is
# from 1.
SATURATED = 12.0
GELU_CUBIC = 0.044715  # arXiv 1606.08415, section 2
UNITS = 16.0


def unknown_at_nan(call: Call, result: Any, x: Any) -> Any:
    """`result`, unknown where x is NaN: a derivative there is whatever a comparison with NaN says."""
    value, _ = to_operand(x)
    nan = value.isnan()
    if not bool(nan.any()):
        return result
    value, error = to_operand(result)
    error = torch.zeros_like(value) if error is None else error
    return call.make(value, torch.where(nan, torch.inf, error))


@rule("sigmoid_backward")
def sigmoid(call: Call) -> Any:
    """g y (1 - y)."""
    g, y = call.follow(call.args[0]), call.follow(call.args[1])
    return g * (y * (1.0 - y))


@rule("tanh_backward")
def tanh(call: Call) -> Any:
    """g (1 - y^2)."""
    g, y = call.follow(call.args[0]), call.follow(call.args[1])
    return g * (1.0 - y * y)


@rule("threshold_backward")
def threshold(call: Call) -> Any:
    """0 where x <= threshold, else g."""
    g, x = call.follow(call.args[0]), call.follow(call.args[1])
    return unknown_at_nan(call, torch.where(x <= call.argument(2, "threshold", 0.0), 0.0, g), x)


@rule("hardtanh_backward")
def hard_tanh(call: Call) -> Any:
    """g strictly inside the limits, else 0."""
    g, x, low, high = (call.follow(argument) for argument in call.args[:4])
    return unknown_at_nan(call, torch.where((x <= low) | (x >= high), 0.0, g), x)


@rule("hardshrink_backward", "softshrink_backward")
def shrink(call: Call) -> Any:
    """0 within [-lambda, lambda], else g."""
    g, x, width = (call.follow(argument) for argument in call.args[:3])
    return unknown_at_nan(call, torch.where((x >= -width) & (x <= width), 0.0, g), x)


@rule("leaky_relu_backward")
def leaky_relu(call: Call) -> Any:
    """g where x > 0, else slope g."""
    g, x, slope = (call.follow(argument) for argument in call.args[:3])
    return unknown_at_nan(call, torch.where(x > 0, g, g * slope), x)


@rule("_prelu_kernel_backward")
def parametric_relu(call: Call) -> Any:
    """g or slope g for x, 0 or x g for the slope."""
    g, x, slope = (call.follow(argument) for argument in call.args[:3])
    by_x = torch.where(x > 0, g, g * slope)
    by_slope = torch.where(x > 0, 0.0, g * x)
    return unknown_at_nan(call, by_x, x), unknown_at_nan(call, by_slope, x)


@rule("elu_backward")
def exponential_linear_unit(call: Call) -> Any:
    """g scale where x > 0, else g alpha scale exp(x), which is g (y + alpha scale) from y."""
    g, alpha, scale, input_scale, is_result, x = call.args
    g, x = call.follow(g), call.follow(x)
    if is_result:
        slope = x + alpha * scale
    else:
        slope = torch.exp(x if input_scale == 1 else x * input_scale) * (alpha * scale)
        # expm1(x) + 1: it cancels.
        floor = UNITS * call.arithmetic.unit_roundoff * abs(alpha * scale)
        slope = add_error(call, slope, torch.full_like(slope.value, floor))
    below = g * (slope if input_scale == 1 else slope * input_scale)
    return unknown_at_nan(call, torch.where(x <= 0, below, g if scale == 1 else g * scale), x)


@rule("gelu_backward")
def gelu(call: Call) -> Any:
    """g (Phi(x) + x phi(x)), or the derivative of GELU's tanh form."""
    g, x = call.follow(call.args[0]), call.follow(call.args[1])
    if call.kwargs.get("approximate", "none") == "none":
        density = torch.exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
        return g * ((torch.erf(x * math.sqrt(0.5)) + 1.0) * 0.5 + x * density)
    square, factor = x * x, math.sqrt(2.0 / math.pi)
    inner = (x + square * x * GELU_CUBIC) * factor
    t = torch.tanh(inner)
    inner_slope = (square * (3.0 * GELU_CUBIC) + 1.0) * factor
    return g * ((t + 1.0) * 0.5 + x * 0.5 * (_tanh_slope(call, inner, t) * inner_slope))


def _tanh_slope(call: Call, a: Any, t: Any) -> Bounded:
    """1 - t^2 for t = tanh(a): far out it is 0 or as small as it should be, whatever is multiplied by it."""
    slope: Any = 1.0 - t * t
    argument, error = to_operand(a)
    reach = argument.abs() if error is None else argument.abs() - error
    tail = torch.exp(reach * -2.0) * 8.0  # twice 4 exp(-2|a|), which is at least 1 - t^2
    return call.make(slope.value, torch.where(reach > SATURATED, torch.minimum(slope.error, tail), slope.error))


@rule("hardsigmoid_backward")
def hard_sigmoid(call: Call) -> Any:
    """g / 6 in (-3, 3), else 0."""
    g, x = call.follow(call.args[0]), call.follow(call.args[1])
    return unknown_at_nan(call, torch.where((x > -3.0) & (x < 3.0), g / 6.0, 0.0), x)


@rule("hardswish_backward")
def hard_swish(call: Call) -> Any:
    """0 up to -3, g (x / 3 + 1/2) in between, g from 3 on."""
    g, x = call.follow(call.args[0]), call.follow(call.args[1])
    inside = g * (x / 3.0 + 0.5)
    return unknown_at_nan(call, torch.where(x <= -3.0, 0.0, torch.where(x < 3.0, inside, g)), x)


@rule("softplus_backward")
def softplus(call: Call) -> Any:
    """g sigmoid(beta x); g itself beyond the threshold, where the sigmoid is 1 but for exp(-threshold)."""
    g, x, beta, limit = (call.follow(argument) for argument in call.args[:4])
    scaled = x if beta == 1 else x * beta
    return unknown_at_nan(call, torch.where(scaled > limit, g, g * torch.sigmoid(scaled)), x)


@rule("log_sigmoid_backward")
def log_sigmoid(call: Call) -> Any:
    """g sigmoid(-x)."""
    return call.follow(call.args[0]) * torch.sigmoid(-call.follow(call.args[1]))


@rule("glu_backward")
def gated_linear_unit(call: Call) -> Any:
    """g sigmoid(b) and g a sigmoid(b) (1 - sigmoid(b)) for the two halves a, b along a dim."""
    g, dim = call.follow(call.args[0]), call.args[2]
    a, b = call.follow(call.args[1]).chunk(2, dim)
    share = torch.sigmoid(b)
    return torch.cat((g * share, g * a * (share * (1.0 - share))), dim)


@rule("mse_loss_backward")
def mean_squared_error(call: Call) -> Any:
    """2 g (x - y), over n for a mean."""
    g, x, y, reduction = (call.follow(argument) for argument in call.args[:4])
    return _share(g * ((x - y) * 2.0), x, reduction)


@rule("smooth_l1_loss_backward")
def smooth_l1(call: Call) -> Any:
    """g d / beta below beta, g sign(d) above, d = x - y."""
    g, x, y, reduction, beta = (call.follow(argument) for argument in call.args[:5])
    d = x - y
    slope = torch.sign(d)
    if beta:
        slope = torch.where(d.abs() < beta, d / beta, slope)
    return _share(g * slope, x, reduction)


@rule("huber_loss_backward")
def huber(call: Call) -> Any:
    """g times d, limited to [-delta, delta], d = x - y."""
    g, x, y, reduction, delta = (call.follow(argument) for argument in call.args[:5])
    return _share(g * (x - y).clamp(-delta, delta), x, reduction)


@rule("binary_cross_entropy_backward")
def binary_cross_entropy(call: Call) -> Any:
    """g (x - y) / max(x (1 - x), 1e-12), weighted."""
    g, x, y = (call.follow(argument) for argument in call.args[:3])
    weight, reduction = call.argument(3, "weight"), call.argument(4, "reduction", MEAN)
    slope = (x - y) / ((1.0 - x) * x).clamp(min=1e-12)
    slope = slope if weight is None else slope * call.follow(weight)
    return _share(g * slope, x, reduction)


@rule("nll_loss_backward", "nll_loss2d_backward")
def negative_log_likelihood(call: Call) -> Any:
    """-g weight[target] at the target, over the total weight for a mean; 0 elsewhere and where ignored."""
    g, scores, target, weight, reduction, ignored, total = call.args
    g, scores = call.follow(g), call.follow(scores)
    classes = 1 if scores.dim() > 1 else 0
    counts = target != ignored
    safe = torch.where(counts, target, torch.zeros_like(target))
    share = -g
    if weight is not None:
        share = share * call.follow(weight).index_select(0, safe.reshape(-1)).reshape(safe.shape)
    if reduction == MEAN:
        share = share / call.follow(total)
    share = share.expand(safe.shape).masked_fill(~counts, 0.0)
    zeros = call.make(torch.zeros_like(scores.value))
    return zeros.scatter(classes, safe.unsqueeze(classes), share.unsqueeze(classes))


def _share(gradient: Any, x: Tensor, reduction: int) -> Any:
    """Of a mean over the elements of x, each has 1 / n."""
    return gradient / x.numel() if reduction == MEAN and x.numel() else gradient


def add_error(call: Call, result: Any, more: Tensor) -> Bounded:
    """`result` with a larger error, where it is finite."""
    value, error = to_operand(result)
    total = more if error is None else error + more
    unchanged = torch.zeros_like(value) if error is None else error
    return call.make(value, torch.where(value.isfinite() & ~more.isnan(), total, unchanged))
