"""What a candidate's process is told by its environment."""

from __future__ import annotations

import pytest

from gpuemu import environment


@pytest.mark.parametrize("ours", ["0", "1", None])
@pytest.mark.parametrize("is_interpreted", [True, False])
def test_the_tier_decides_whether_a_worker_interprets(
    monkeypatch: pytest.MonkeyPatch, ours: str | None, is_interpreted: bool
) -> None:
    """Whatever the user's shell has: Triton reads the variable when the worker imports it."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    if ours is not None:
        monkeypatch.setenv("TRITON_INTERPRET", ours)
    made = environment.make_worker_environment("/scratch", is_interpreted)
    assert made.get("TRITON_INTERPRET") == ("1" if is_interpreted else None)


def test_secrets_stay_with_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/ptxas")
    made = environment.make_worker_environment("/scratch", is_interpreted=True)
    assert "AWS_SECRET_ACCESS_KEY" not in made
    assert made["TRITON_PTXAS_PATH"] == "/ptxas"
    assert made["TMPDIR"] == made["TRITON_CACHE_DIR"] == "/scratch"


def test_what_compilers_set_is_no_part_of_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    before = environment.snapshot()
    for name in ("TRITON_CACHE_DIR", "TRITON_PTXAS_PATH", "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"):
        monkeypatch.setenv(name, "set")
    assert environment.snapshot() == before
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    assert environment.snapshot() != before
