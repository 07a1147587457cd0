"""What small distortions a plan would have let through, as lines of the terminal report."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu.model.verdict import Adequacy
from gpuemu.report.text import FAINT_STYLE, Line, join_words, make_line


def distortion_lines(adequacy: Adequacy) -> Iterator[Line]:
    """The smallest relative error that the plan sees per dtype; then a note on distortions that it accepts."""
    if adequacy.visible_bits:
        seen = join_words([f"2^-{bits} ({dtype})" for dtype, bits in sorted(adequacy.visible_bits.items())])
        yield make_line(("adequacy: ", FAINT_STYLE), f"relative errors down to {seen} would be seen")
    if adequacy.accepted_distortions:
        accepted = join_words(adequacy.accepted_distortions)
        yield make_line(("note: ", "yellow"), f"no case tells the right answer from: {accepted}")
