"""The cross-oracle audit end to end."""

from __future__ import annotations

import json

import torch

import gpuemu
from gpuemu.oracle.baselines.rules import RULES
from gpuemu.report.audit import audit_lines
from gpuemu.report.json_text import dump


def audited(kernel: object, op: str = "softmax", **options: object) -> gpuemu.Report:
    plain = {"budget": 8, "seed": 1, "store": False, "shrink": False, "audit": True, "dtypes": ["float32"]}
    return gpuemu.check(kernel, op, **{**plain, **options})  # type: ignore[arg-type]


def off_by_a_little(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1) * (1.0 + 5e-5)


def test_an_error_below_every_fixed_tolerance_is_a_disagreement_with_its_element() -> None:
    report = audited(off_by_a_little)
    assert report.audit is not None
    rules = report.audit.rules
    assert set(rules) == {"gpuemu", *(rule.name for rule in RULES)}
    assert rules["gpuemu"].rejected > 0
    assert rules["kernelbench"].rejected == 0
    accepted = [d for d in report.audit.disagreements if d.rule == "kernelbench"]
    assert len(accepted) == rules["gpuemu"].rejected
    for disagreement in accepted:
        assert disagreement.accepts
        assert disagreement.actual / disagreement.expected - 1.0 > 4e-5
        assert disagreement.error_bound_units > 1.0 >= disagreement.rule_score


def test_a_correct_kernel_that_the_published_rule_rejects_for_its_nan() -> None:
    report = audited(lambda x: torch.softmax(x, dim=-1), value_classes=["nan_injected"])
    assert report.audit is not None
    assert report.audit.rules["gpuemu"].rejected == 0
    assert report.audit.rules["published_absolute"].rejected > 0
    found = next(d for d in report.audit.disagreements if d.rule == "published_absolute")
    assert not found.accepts and found.actual != found.actual


def test_without_thresholds_the_calibrated_rule_abstains() -> None:
    report = audited(torch.relu, "relu")
    assert report.audit is not None
    assert report.audit.rules["p95x1.5"].abstained == len(report.records)


def test_the_audit_changes_no_verdict_and_is_in_report_and_json() -> None:
    report, plain = audited(off_by_a_little), audited(off_by_a_little, audit=False)
    assert [r.verdict for r in report.records] == [r.verdict for r in plain.records]
    assert plain.audit is None
    assert report.audit is not None
    text = "\n".join(line.plain for line in audit_lines(report.audit))
    assert "kernelbench accepts: element" in text
    document = json.loads(dump(report.to_json()))
    assert document["audit"]["rules"]["kernelbench"]["rejected"] == 0
