# Set up, open and test the course. `make` alone shows what there is; Windows needs no make, see README.md.
# All paths are relative, because make cannot handle a folder whose name has a space.

# make lab TORCH=cpu       the small torch, for a laptop without an NVIDIA GPU (any kind that uv's --torch-backend knows)
# make lab PYTHON=python3.12
# make lab JUPYTER_ARGS="--no-browser --port 9999"
TORCH =
PYTHON =
JUPYTER_ARGS =

py = .venv/bin/python
ready = .venv/.ready$(TORCH:%=-torch-%)

.PHONY: help lab test test-all test-browser lint doctor bench test-torch-range setup clean
.NOTPARALLEL:

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | awk -F '|' '{ printf "make %-18s %s\n", $$1, $$2 }'

# The environment's commands (torchrun, pip) are first on PATH, for the `!` of a cell and for Jupyter's terminal. `exec`, so
# that Ctrl-C meets only Jupyter, and not a shell that would leave it behind.
lab: setup  ## set up, then open the first lesson in JupyterLab
	@set -- notebooks/*.ipynb; [ -e "$$1" ] || set -- .; \
	exec env PATH="$$(pwd)/.venv/bin:$$PATH" $(py) -m jupyterlab "$$1" $(JUPYTER_ARGS) \
	  $${CI:+--no-browser} $$([ "$$(id -u)" != 0 ] || echo --allow-root)

test: lint  ## set up, then all that must be green: lint, types, tests, lessons
	$(py) -m compileall -q ddp_lessons tests benchmarks
	$(py) -m pytest -n 3 tests $(measure_time_or_memory:%=--ignore=%) $(without_browser)
	$(py) -m pytest $(measure_time_or_memory)
	rm -rf .elsewhere && mkdir .elsewhere && cp notebooks/*.ipynb .elsewhere
	$(py) -m pytest -n 2 --dist loadfile --nbval .elsewhere
	rm -rf .elsewhere

test-all: export DDP_LESSONS_TESTS = all
test-all: test test-browser  ## the same with every case and seed there is, and in a browser: twice as long

# The lessons are run as copies in another folder: so they need nothing of their own.
measure_time_or_memory = $(patsubst %,tests/run/test_%.py,interrupts lifetime standstill)
without_browser = --ignore=tests/browser

test-browser: setup .venv/.extra-browser  ## run the lessons in JupyterLab in a real browser; see .screenshots/
	$(py) -m pytest -n 3 --dist loadgroup tests/browser

lint: setup .venv/.extra-dev  ## look at style and types
	$(py) -m ruff check .
	$(py) -m ruff format --check .
	$(py) -m mypy

doctor: setup  ## look whether this machine is ready for the lessons
	@$(py) -m ddp_lessons doctor

bench: setup .venv/.extra-bench  ## measure our launch beside its peers, and training on two ranks
	$(py) -m benchmarks
	$(py) -m benchmarks.cells
	$(py) -m benchmarks.steps
	$(py) -m benchmarks.training

test-torch-range: setup  ## run the tests with the oldest and the newest torch that we support
	@$(call test_with,torch==$(oldest_torch))
	@$(call test_with,torch)

clean:  ## remove the virtual environment and what tools left behind
	rm -rf .elsewhere .screenshots .venv .venv.unfinished .venv-range .venv-range.unfinished *.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up ---------------------------------------------------------------------------------------------------------
# $(ready) says that the set-up went through to its end, and in which folder: the commands in .venv know only that one.
# It is done again when anything was installed since, for that may have torn torch and torchvision apart.
setup:  ## make .venv and install what the lessons need; at once when it is there
	@[ ! -e $(ready) ] || [ "$$(cat $(ready))" = "$$(pwd -P)" ] || { echo "This folder was moved or copied from" \
	  "$$(cat $(ready)), and its .venv does not work here. Type: make clean, and then what you typed." >&2; exit 1; }
	@$(MAKE) --no-print-directory --silent $(ready)

$(ready): requirements.txt pyproject.toml $(wildcard .venv/lib/python3*/site-packages)
	@echo "Setting up .venv: half a minute with uv, some minutes with pip."
	@$(call make_venv,.venv)
	@$(call install,.venv,-r requirements.txt -e . $(torch_of_this_kind))
	@$(py) -m ddp_lessons pair
	@$(py) -m compileall -q ddp_lessons
	@mkdir -p .venv/etc/jupyter/labconfig
	@echo '$(jupyter_settings)' > .venv/etc/jupyter/labconfig/default_setting_overrides.json
	@pwd -P > $@

# JupyterLab leaves the state of widgets out of a notebook that it saves, unless told: opened again, the notebook would have
# "model not found" in the place of their pictures. And it would begin with a question, whether to show news from outside.
# These are defaults, which a learner can change in JupyterLab's settings.
jupyter_settings = {"@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": true}, \
  "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}}

.venv/.extra-%: requirements.txt pyproject.toml | $(ready)
	@$(call install,.venv,-e ".[$*]")
	@touch $(ready) $@

torch_of_this_kind = $(TORCH:%=--torch-backend % --reinstall-package torch --reinstall-package torchvision)
oldest_torch = $(shell sed -n 's/^torch>=\([0-9.]*\).*/\1/p' requirements.txt)

# Folder $(1) gets a virtual environment, unless it is a working one. One that was cut off half-way is begun anew.
define make_venv
if [ -e $(1).unfinished ] || ! $(1)/bin/python -c "$(is_new_enough)" 2>/dev/null; then \
  python=$$($(find_python)) && touch $(1).unfinished && "$$python" -m venv --clear $(1) && rm $(1).unfinished; \
fi
endef

is_new_enough = import sys; sys.exit(sys.version_info < (3, 10))
define find_python
for python in $(if $(PYTHON),"$(PYTHON)",python3 python python3.13 python3.12 python3.11 python3.10); do \
  "$$python" -c "$(is_new_enough)" 2>/dev/null && echo "$$python" && exit; \
done; \
echo "The lessons need Python 3.10 or newer, and $(or $(PYTHON),python3) is not. Install one from python.org," \
  "or say where it is: make lab PYTHON=/path/to/python" >&2; exit 1
endef

# Installs $(2) into $(1): with uv if it is there, else with pip. Only uv can choose a kind of torch: then pip fetches uv.
define install
[ ! -e $(1)/.installing ] || $(1)/bin/python -c "$$forget_half_installed"; touch $(1)/.installing; \
if [ -n "$(TORCH)" ] && ! $(call find_uv,$(1)) >/dev/null; then $(1)/bin/python -m pip install uv || exit 1; fi; \
if uv=$$($(call find_uv,$(1))); then "$$uv" pip install --python $(1)/bin/python --compile-bytecode $(2); \
else $(1)/bin/python -m pip install --disable-pip-version-check $(2); fi && rm $(1)/.installing
endef
find_uv = { command -v uv || command -v $(1)/bin/uv; }

# Where an installation was cut off, pip and uv take a package with half of its files for a whole one. Forget such
# packages, so that they are installed again. (A name with ~ is the old version, put aside during an upgrade.)
define forget_half_installed
import csv, pathlib, shutil, sysconfig
site = pathlib.Path(sysconfig.get_path("purelib"))
for info in [*site.glob("*.dist-info"), *site.glob("~*")]:
    record = info / "RECORD"
    rows = csv.reader(record.read_text(encoding="utf-8").splitlines()) if record.is_file() else [["nothing", "0"]]
    sizes = {site / row[0]: row[-1] for row in rows if row and row[-1]}
    if not all(file.is_file() and str(file.stat().st_size) == size for file, size in sizes.items()):
        print("The last set-up was cut off, so this is installed again:", info.name)
        shutil.rmtree(info)
endef
export forget_half_installed

# A throwaway environment with the torch that $(1) asks for, within the range; the tests; and away with it (6 GB).
define test_with
trap 'rm -rf .venv-range .venv-range.unfinished' EXIT; trap 'exit 1' INT TERM; rm -rf .venv-range; \
$(call make_venv,.venv-range) && $(call install,.venv-range,-r requirements.txt -e ".[dev]" "$(1)") && \
.venv-range/bin/python -m ddp_lessons pair && .venv-range/bin/python -m pytest tests $(without_browser)
endef
