"""What the pages of the studies share: a table, the versions measured with, a plot that can be diffed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]


def write_with_plot(
    name: str,
    document: Document,
    folder: Path,
    render: Callable[[Document, str | None], str],
    draw: Callable[[Document, Path], bool],
) -> list[Path]:
    """Write `NAME.md` and, where it can be drawn, `NAME.svg` into a folder; returns what was written.

    Args:
        render: the page's text, given the plot's file name if there is one. draw: False if it drew nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plot = folder / f"{name}.svg"
    drawn = draw(document, plot)
    page = folder / f"{name}.md"
    page.write_text(render(document, plot.name if drawn else None), encoding="utf-8")
    return [page, plot] if drawn else [page]


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table; a bar within a cell is escaped."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def describe_versions(document: Document) -> str:
    """The packages that a study's document was measured with."""
    environment = document["environment"]
    names = ("python", "torch", "triton", "numpy")
    return ", ".join(f"{name} {environment[name]}" for name in names if name in environment)


def has_matplotlib() -> bool:
    """Whether plots can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def drawing(path: Path, width: float, height: float) -> Iterator[Any]:
    """Axes of a figure that is saved as SVG at the end; the same data give the same file.

    Args:
        width, height: in inches.
    """
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gpuemu"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(width, height))
    yield axes
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
