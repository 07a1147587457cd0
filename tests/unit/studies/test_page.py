"""What the pages of studies share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuemu.studies.page import write_with_plot


@pytest.mark.parametrize("drawn", [True, False])
def test_a_page_names_its_plot_only_where_there_is_one(tmp_path: Path, drawn: bool) -> None:
    def draw(document: Any, path: Path) -> bool:
        if drawn:
            path.write_text("plot")
        return drawn

    folder = tmp_path / "new" / "folder"
    written = write_with_plot("name", {"seed": 4}, folder, lambda document, plot: f"{document} {plot}", draw)
    assert [path.name for path in written] == (["name.md", "name.svg"] if drawn else ["name.md"])
    assert all(path.parent == folder and path.exists() for path in written)
    assert written[0].read_text() == f"{{'seed': 4}} {'name.svg' if drawn else None}"
