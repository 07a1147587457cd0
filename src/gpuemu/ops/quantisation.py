"""Quantisation to integers and 8-bit floats: codes, and the scales that turn them back into numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gpuemu.model.op import Dim, Op, Tensor

# A row is one program's or one thread block's work, so more rows only add programs.
ROW_DIMS = {"R": Dim(1, 8192, batch=True), "N": Dim(1, 16384)}
BLOCK = 32  # elements that share a scale: OCP Microscaling Formats 1.0, section 5.1
INT8_MAX, INT4_MAX = 127, 7
E4M3_MAX, E5M2_MAX = 448.0, 57344.0  # OFP8, revision 1.0, table 1


def scale_of(x: torch.Tensor, largest: float) -> torch.Tensor:
    """What the largest magnitude of every row is divided by to become `largest`; 1 for a row of zeros."""
    magnitude = x.abs().amax(dim=-1, keepdim=True)
    return torch.where(magnitude == 0, 1.0, magnitude / largest)


def quantise_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """round(x / s) per row with s = max |x| / 127 (Dettmers et al., arXiv 2208.07339, section 2.1)."""
    scale = scale_of(x, INT8_MAX)
    return torch.round(x / scale).to(torch.int8), scale


def quantise_int8_static(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """round(x / s) clamped to [-128, 127], s given (Jacob et al., arXiv 1712.05877, equation 12)."""
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)


def quantise_int8_blocks(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`quantise_int8` for every 32 elements of `x: R B*32`: codes of its shape, scales of shape R B."""
    blocks = x.reshape(*x.shape[:-1], -1, BLOCK)
    scale = scale_of(blocks, INT8_MAX)
    return torch.round(blocks / scale).to(torch.int8).flatten(-2), scale.squeeze(-1)


def quantise_int4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of four bits in two's complement, two in a byte: the even element's in the low half."""
    scale = scale_of(x, INT4_MAX)
    codes = torch.round(x / scale).to(torch.int32)
    low, high = codes[..., 0::2], codes[..., 1::2]
    return ((low & 15) | ((high & 15) << 4)).to(torch.uint8), scale


def quantise_fp8(
    dtype: torch.dtype, largest: float
) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """The quantiser of an 8-bit float: x / s per row with s = max |x| / largest, saturating."""

    def quantise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale = scale_of(x, largest)
        return torch.clamp(x / scale, -largest, largest).to(dtype), scale

    return quantise


OPS = (
    Op(
        "quantise_int8",
        inputs={"x": "R N"},
        dims=ROW_DIMS,
        reference=quantise_int8,
        output_dtypes=["int8", "float32"],
        family="quantisation",
        doc="round(127 x / max |x|) per row as int8, and the scales max |x| / 127 (1 for a row of zeros)",
    ),
    Op(
        "quantise_int8_static",
        inputs={"x": "R N", "scale": Tensor("1", dtype="float32", low=0.03125, high=0.125)},
        dims=ROW_DIMS,
        reference=quantise_int8_static,
        output_dtypes=["int8"],
        family="quantisation",
        doc="round(x / scale) clamped to [-128, 127] as int8, one given scale",
    ),
    Op(
        "quantise_int8_blocks",
        inputs={"x": f"R B*{BLOCK}"},
        dims={"R": ROW_DIMS["R"], "B": Dim(1, 512)},
        reference=quantise_int8_blocks,
        output_dtypes=["int8", "float32"],
        family="quantisation",
        doc="quantise_int8 with a scale for every 32 elements of a row",
    ),
    Op(
        "quantise_int4",
        inputs={"x": "R 2*H"},
        dims={"R": ROW_DIMS["R"], "H": Dim(1, 8192)},
        reference=quantise_int4,
        output_dtypes=["uint8", "float32"],
        family="quantisation",
        doc="round(7 x / max |x|) per row in 4 bits, two to a byte (even elements low), and the scales",
    ),
    Op(
        "quantise_fp8",
        inputs={"x": "R N"},
        dims=ROW_DIMS,
        reference=quantise_fp8(torch.float8_e4m3fn, E4M3_MAX),
        output_dtypes=["float8_e4m3fn", "float32"],
        family="quantisation",
        doc="448 x / max |x| per row as float8_e4m3fn, saturating, and the scales max |x| / 448",
    ),
    Op(
        "quantise_fp8_e5m2",
        inputs={"x": "R N"},
        dims=ROW_DIMS,
        reference=quantise_fp8(torch.float8_e5m2, E5M2_MAX),
        output_dtypes=["float8_e5m2", "float32"],
        family="quantisation",
        doc="57344 x / max |x| per row as float8_e5m2, saturating, and the scales max |x| / 57344",
    ),
)
