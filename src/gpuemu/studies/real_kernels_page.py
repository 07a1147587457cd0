"""Study "real-kernels" as a Markdown page: everything in it is read from the study's document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuemu.studies.page import Document, make_table

_ORIGINS = {
    "theirs": "A discrepancy of the kernel.",
    "ours": "A false alarm of ours.",
    "semantics": "A documented or permitted difference.",
}


def write_page(document: Document, folder: Path) -> list[Path]:
    """Write `real-kernels.md` into a folder; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "real-kernels.md"
    page.write_text(render_markdown(document), encoding="utf-8")
    return [page]


def render_markdown(document: Document) -> str:
    """The page: summary, a row per kernel, then every finding with its minimal case and its cause."""
    lines = ["# Triton kernels that none of us wrote", "", _measured(document), ""]
    lines += [f"- {sentence}" for sentence in _summary(document)]
    lines += ["", "## Verdicts", "", _LEGEND, ""]
    header = ["op", "target", "profiles", "float32", "float16", "bfloat16", "findings"]
    lines += make_table(header, [_kernel_row(row) for row in document["kernels"]])
    lines += ["", "## Profiles looser than the default", ""]
    lines += make_table(
        ["op", "reason"], [[f"`{r['op']}`", r["reason"]] for r in document["kernels"] if r["reason"]]
    )
    lines += ["", "## Findings", ""]
    for row in document["kernels"]:
        for finding in row.get("findings", ()):
            lines += [*_finding(row, finding), ""]
    return "\n".join(lines).rstrip() + "\n"


_LEGEND = (
    "A cell gives the verdict of that dtype's cases, where the first of them that failed stands in the "
    "kernel's plan, and how many had which status; of an `inconclusive` case too few elements can be judged "
    "under its profile. Profiles are those of float32 / float16 / bfloat16. *undefined_lanes*: a passing case "
    "fails once the lanes that a masked load without `other` leaves undefined hold NaN (tried on the CPU tier)."
)


def _measured(document: Document) -> str:
    environment = document["environment"]
    names = ("python", "torch", "triton", "numpy")
    versions = ", ".join(f"{name} {environment[name]}" for name in names if name in environment)
    return (
        f"Measured by `gpuemu study real-kernels --device {document['device']} --seed {document['seed']}` on "
        f"{document['device_name']}, {document['cores']} cores, {environment.get('machine', '')}, in "
        f"{document['seconds']:.0f} s ({versions})."
    )


def _summary(document: Document) -> Iterator[str]:
    yield ", ".join(f"{name} {version or 'not installed'}" for name, version in document["packages"].items())
    passed, failed = document["passed"], document["failed"]
    yield f"{len(passed)} of {len(passed) + len(failed)} passed; {document['cases']} cases."
    yield "findings: " + (", ".join(f"{n} {origin}" for origin, n in document["origins"].items()) or "none")


def _kernel_row(row: Document) -> list[str]:
    start = [f"`{row['op']}`", f"`{row['target']}`", " / ".join(row["profiles"].values())]
    if "dtypes" not in row:
        return [*start, row["unavailable"], "", "", ""]
    cells = [_verdict(row["dtypes"].get(dtype)) for dtype in ("float32", "float16", "bfloat16")]
    return [*start, *cells, ", ".join(f"{found['kind']} ({found['cases']})" for found in row["findings"])]


def _verdict(dtype_row: Document | None) -> str:
    if dtype_row is None:
        return ""
    first = dtype_row["first_failure"]
    counts = ", ".join(f"{number} {status}" for status, number in dtype_row["statuses"].items())
    return f"{dtype_row['status']}{f' at {first}' if first else ''}: {counts}"


def _finding(row: Document, finding: Document) -> Iterator[str]:
    yield f"### `{row['op']}`: {finding['kind']}"
    yield ""
    shown, label = (
        (finding["minimal"], "Minimal case") if finding["minimal"] else (finding["first"], "First case")
    )
    number = "1 case" if finding["cases"] == 1 else f"{finding['cases']} cases"
    yield f"{number} ({', '.join(finding['dtypes'])}). {label}: {shown['summary']}."
    message = shown["verdict"].get("message", "")
    if message:
        yield ""
        yield f"> {message}"
    yield ""
    cause = finding["cause"]
    if cause is None:
        yield "No cause is recorded."
        return
    reference = f" ({cause['reference']})" if cause["reference"] else ""
    yield f"{_ORIGINS[cause['origin']]} {cause['text']}{reference}"
