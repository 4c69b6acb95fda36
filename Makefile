# Needs Python 3.11 or newer, make and the package index. `make` alone lists the targets.

.DEFAULT_GOAL := help
.PHONY: help setup demo test check engines bench capitals temperature votes segments beams quantisation choices similarity analyses findings faults audit clean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ENGINES := $(VENV)/engines
DEMO := data/raw/demo

# Another interpreter: make setup PYTHON=python3.12
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$name; break; fi; done)

# MLX's back end on Linux; none on macOS, where Metal is built in. Another: make setup EXTRA=cpu (after make clean)
EXTRA ?= $(shell [ "$$(uname -s)" = Linux ] || exit 0; \
	version=$$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA[A-Za-z ]* Version: *\([0-9][0-9]*\).*/\1/p' | head -n 1); \
	if [ "$${version:-0}" -ge 13 ]; then echo cuda13; elif [ "$${version:-0}" -eq 12 ]; then echo cuda12; else echo cpu; fi)

# Where fetched and imported models are kept.
TOOLKIT_MODELS ?= $(CURDIR)/data/models
export TOOLKIT_MODELS

comma := ,

help: ## List the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "  make %-11s %s\n", $$1, $$2 }'

setup: $(READY) ## Make .venv and install the toolkit into it; again where pyproject.toml changed

$(READY): pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "make setup: no Python 3.11 or newer found; install one, or name it: make setup PYTHON=/path/to/python3" >&2; exit 1; fi
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { $(new_environment); }
	$(BIN)/python -m pip install --disable-pip-version-check --editable ".[dev$(if $(EXTRA),$(comma)$(EXTRA))]"
	@touch $(READY)

# Debian's Python comes without ensurepip, so that an environment gets no pip of its own.
new_environment = \
	if $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
		$(PYTHON) -m venv --clear $(VENV); \
	elif $(PYTHON) -m pip --python $(PYTHON) --version >/dev/null 2>&1; then \
		$(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install pip; \
	else \
		echo "make setup: $(PYTHON) cannot make an environment with pip; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; \
	fi

demo: $(READY) ## Collect 8 samples and a greedy answer for each of 60 questions; show the least confident answers
	$(BIN)/toolkit collect --prompts data/prompts/questions.jsonl --output $(DEMO) -n 8 --greedy --max-tokens 32
	@echo
	@echo "The run is in $(DEMO). The five greedy answers that the model was least sure of:"
	@echo
	@$(BIN)/toolkit summarize $(DEMO) --by sequence --metrics n_tokens,mean_logprob,min_logprob --kind greedy --sort mean_logprob --limit 5
	@echo
	@$(BIN)/toolkit show $(DEMO) --by token --kind greedy --sort mean_logprob --limit 5

test: $(READY) ## Run the tests; some of them: make test ARGS=tests/cli
	$(BIN)/python -m pytest $(ARGS)

check: $(READY) ## Lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Apart from .venv: MLX-LM imports PyTorch wherever it is installed, and with it another BLAS and its threads.
engines: $(READY) ## PyTorch, transformers and llama.cpp into .venv/engines, for make bench; what cannot be had is said
	@test -x $(ENGINES)/bin/python || $(BIN)/python -m venv --without-pip $(ENGINES)
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet "pip>=25.1"
	@$(call engine,hugging-face)
	@$(no_amx) CMAKE_ARGS="-DLLAVA_BUILD=OFF" $(call engine,llama-cpp)

engine = $(BIN)/python -m pip --disable-pip-version-check --python $(ENGINES)/bin/python install --quiet --group $(1) \
	|| echo "make engines: $(1) could not be installed; make bench leaves it out"

# On some virtual machines llama.cpp crashes in the processor's AMX instructions, although the system shows them.
no_amx = $(if $(filter x86_64,$(shell uname -m)),CFLAGS="$(AMX_FLAGS)" CXXFLAGS="$(AMX_FLAGS)")
AMX_FLAGS := -mno-amx-tile -mno-amx-int8 -mno-amx-bf16

bench: engines ## Speed, side by side with what is compared to
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable ".[bench]"
	@set -e; for script in analyses/benchmarks/*.py; do echo "$$script"; $(BIN)/python "$$script"; done

capitals: $(READY) ## Does confidence know right from wrong? (analyses/01_capitals.py; the others likewise)
	$(BIN)/python analyses/01_capitals.py

temperature: $(READY) ## What temperature does
	$(BIN)/python analyses/02_temperature.py

votes: $(READY) ## Votes on arithmetic
	$(BIN)/python analyses/03_votes.py

segments: $(READY) ## Which pieces of text the model is least sure of
	$(BIN)/python analyses/04_segments.py

beams: $(READY) ## Beams against sampled agreement
	$(BIN)/python analyses/05_beams.py

quantisation: $(READY) ## What 8 and 4 bits a weight do to confidence
	$(BIN)/python analyses/06_quantisation.py

choices: $(READY) ## Multiple choice, and a model asked whether its answers are true: docs/choices.md
	$(BIN)/python analyses/07_choices.py

similarity: $(READY) ## Whether a model knows which answers mean the same: docs/similarity.md
	$(BIN)/python analyses/08_similarity.py

analyses: capitals temperature votes segments beams quantisation ## All six with a report; reports in data/reports

findings: $(READY) ## Quote the analyses' results and a picture of the report in docs/
	$(BIN)/python analyses/publish.py
	$(BIN)/python analyses/pictures.py

faults: $(READY) ## Inject faults and bad input; write docs/faults.md
	TOOLKIT_FAULTS_TABLE=docs/faults.md $(BIN)/python -m pytest tests/faults -q

audit: $(READY) ## Licences into docs/licences.md, and known weaknesses where the index can be asked
	$(BIN)/python analyses/checks/licences.py
	$(BIN)/python -m pip install --disable-pip-version-check --quiet pip-audit
	$(BIN)/python -m pip_audit --skip-editable

clean: ## Remove .venv, caches and build output; runs and models stay
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find toolkit tests analyses -name __pycache__ -type d -prune -exec rm -rf {} +
