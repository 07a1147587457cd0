# Everything a contributor runs. Each target sets itself up in $(VENV) first.
PYTHON ?= python3
VENV ?= .venv
# What to install torch from; a machine without a GPU may prefer a CPU build, e.g. TORCH=torch==2.13.0
TORCH ?= torch
BIN := $(VENV)/bin

.PHONY: demo test lint slow study benchmark clean

demo: $(VENV)/.ready  ## find a wrong Triton kernel without a GPU (its exit status 1 is the finding)
	$(BIN)/gpuemu check softmax_triton_buggy --seed 0 || test $$? -eq 1

test: $(VENV)/.ready  ## the fast tiers: unit, CPU end to end, quality
	$(BIN)/python -m pytest

lint: $(VENV)/.ready  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

slow: $(VENV)/.ready  ## the slow tier: P1 for seeds 0-9, real kernels, torch's op database, population, hard values
	$(BIN)/python -m pytest -m slow

study: $(VENV)/.ready  ## study P1 on this machine's CPU
	$(BIN)/gpuemu study p1 --device cpu --seed 0 --output studies/p1/cpu

benchmark: $(VENV)/.ready  ## ratios, measured side by side
	$(BIN)/python benchmarks/cost_per_case.py
	$(BIN)/python benchmarks/bound_cost.py

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[triton,plots]" --group dev
	touch $@

clean:
	rm -rf $(VENV) .gpuemu .pytest_cache .mypy_cache .ruff_cache
