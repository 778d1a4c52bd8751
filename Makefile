# Set up, open and test the course. `make` alone shows what there is.
# All paths are relative, because make cannot handle a folder whose name has a space.

# make lab TORCH=cpu       the small torch, for a laptop without an NVIDIA GPU (any kind that uv's --torch-backend knows)
# make lab PYTHON=python3.12
# make lab JUPYTER_ARGS="--no-browser --port 9999"
TORCH =
PYTHON =
JUPYTER_ARGS =

py = .venv/bin/python
ready = .venv/.ready$(TORCH:%=-torch-%)

.PHONY: help lab test test-all test-offline lessons test-browser lint notebooks offline doctor bench site slides links
.PHONY: test-torch-range test-with setup clean
.NOTPARALLEL:

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | awk -F '|' '{ printf "make %-18s %s\n", $$1, $$2 }'

# The environment's commands (torchrun, pip) are first on PATH, for the `!` of a cell and for Jupyter's terminal. `exec`, so
# that Ctrl-C meets only Jupyter, and not a shell that would leave it behind.
lab: setup  ## set up, then open a copy of the lessons in JupyterLab: my_lessons/, without the stored outputs
	@first=$$($(py) -m ddp_lessons lessons) || exit; \
	exec env PATH="$$(pwd)/.venv/bin:$$PATH" $(py) -m jupyterlab "$$first" $(JUPYTER_ARGS) \
	  $${CI:+--no-browser} $$([ "$$(id -u)" != 0 ] || echo --allow-root)

test: lint $(CI:%=.venv/.extra-mpi)  ## set up, then all that must be green: lint, types, tests, lessons
	$(py) -m compileall -q authoring ddp_lessons scripts tests benchmarks docs/instructor offline
	$(py) -m pytest -n 3 --durations=10 tests --ignore=tests/timing --ignore=tests/browser
	$(py) -m pytest --durations=3 tests/timing  # nothing beside them
	@$(MAKE) --no-print-directory lessons

test-all:  ## the same with every test, case and seed there is, and in a browser: an hour and more
	$(MAKE) test test-browser test-offline DDP_LESSONS_TESTS=all

# As copies in another folder: so they need nothing of their own. The later ones take longest, and so begin first; and
# three at once, since many of their cells wait: for torchrun, for a time that runs out, for a cable that is pulled.
lessons: setup .venv/.extra-dev  ## run every lesson, and compare what comes out with what is stored in it
	rm -rf .elsewhere && mkdir .elsewhere && cp notebooks/*.ipynb .elsewhere
	DDP_LESSONS_MINUTES=.elsewhere/minutes.json \
	  $(py) -m pytest -n 3 --dist loadfile --no-loadscope-reorder --nbval $$(ls -r .elsewhere/*.ipynb)
	$(py) -m benchmarks.minutes .elsewhere/minutes.json
	rm -rf .elsewhere

test-browser: setup .venv/.extra-browser site slides  ## run the lessons and the site in a real browser; see .screenshots/
	$(py) -m pytest -n 2 --dist loadgroup tests/browser

lint: setup .venv/.extra-dev  ## look at style and types
	$(py) -m ruff check .
	$(py) -m ruff format --check .
	$(py) -m mypy

# make notebooks LESSONS="3 09"    by number or a part of the name; make notebooks NOTEBOOKS_ARGS=--twice
notebooks: setup  ## run lessons and store their outputs, with the smallest diff
	@$(py) -m authoring notebooks $(LESSONS) $(NOTEBOOKS_ARGS)

doctor: setup  ## look whether this machine is ready for the lessons
	@$(py) -m ddp_lessons doctor

bench: setup .venv/.extra-bench  ## measure our launch beside its peers, and training on two ranks
	$(py) -m benchmarks
	$(py) -m benchmarks.cells
	$(py) -m benchmarks.steps
	$(py) -m benchmarks.scripts
	$(py) -m benchmarks.training

site: setup .venv/.extra-site  ## make the site of the lessons and docs, build/site/index.html: no network is needed to read it
	@$(py) site/staging.py build/pages
	@$(sphinx) -b html -W --keep-going build/pages build/site
	@$(py) site/walk.py build/site

slides: setup .venv/.extra-site  ## make slides of the lessons, build/slides/index.html
	@$(py) site/make_slides.py build/slides
	@$(py) site/walk.py build/slides

links: setup .venv/.extra-site  ## try the links that lead outside; it needs the network
	@$(py) site/staging.py build/pages
	@$(py) site/outside.py || exit 0; $(sphinx) -b linkcheck build/pages build/links

# two processes: more would wait for each other's cores
sphinx = $(py) -m sphinx -c site -d build/doctrees -j 2 -q

test-torch-range:  ## run the tests with the oldest and the newest torch that we support
	@$(call test_with,torch==$(oldest_torch))
	@$(call test_with,torch)

# make test-with PYTHON=python3.13 WITH="torch==2.13.0 ipython<8.13"
WITH =
test-with:  ## run the tests in another Python, or with other packages, than those of .venv
	@$(call test_with,$(WITH))

# FOR and PYTHONS name other machines than this one; TAR=yes makes one file of the folder;
# WITHOUT=torch leaves out torch and torchvision, which participants have already
# make offline FOR="linux macos" PYTHONS="3.11 3.12 3.13" TORCH=cpu
FOR =
PYTHONS =
TAR =
WITHOUT =
offline: setup  ## make a folder that installs the lessons on machines without a network; see docs/offline.md
	@$(py) -m offline $(FOR:%=--for %) $(PYTHONS:%=--python %) $(TORCH:%=--torch %) $(TAR:%=--tar %) \
	  $(WITHOUT:%=--without %)

test-offline: setup .venv/.extra-dev  ## fetch all wheels and install them where there is no network: 3 GB to fetch, 10 GB of disk
	DDP_LESSONS_TESTS=all $(py) -m pytest tests/offline/test_everything.py

clean:  ## remove the virtual environment and what tools left behind
	rm -rf .elsewhere .screenshots build .venv .venv.unfinished .venv-range .venv-range.unfinished *.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up ---------------------------------------------------------------------------------------------------------
# $(ready) says that the set-up went through to its end, and in which folder: the commands in .venv know only that one.
# It is done again when anything was installed since, for that may have torn torch and torchvision apart.
setup:  ## make .venv and install what the lessons need; at once when it is there
	@[ ! -e $(ready) ] || [ "$$(cat $(ready))" = "$$(pwd -P)" ] || { echo "This folder was moved or copied from" \
	  "$$(cat $(ready)), and its .venv does not work here. Type: make clean, and then what you typed." >&2; exit 1; }
	@$(MAKE) --no-print-directory --silent $(ready)

# JupyterLab's settings: it leaves the state of widgets out of a notebook that it saves, unless told; opened again, the notebook
# would have "model not found" in the place of their pictures. And it would begin with a question, whether to show news from
# outside. These are defaults, which a learner can change.
$(ready): requirements.txt pyproject.toml $(wildcard .venv/lib/python3*/site-packages)
	@echo "Setting up .venv: half a minute with uv, some minutes with pip."
	@$(call make_venv,.venv)
	@$(call install,.venv,-r requirements.txt -e . $(torch_of_this_kind))
	@echo "Looking whether torch and torchvision are a pair: some seconds, at first."
	@$(py) -m ddp_lessons pair
	@$(py) -m compileall -q ddp_lessons
	@mkdir -p .venv/etc/jupyter/labconfig
	@cp ddp_lessons/jupyterlab.json .venv/etc/jupyter/labconfig/default_setting_overrides.json
	@pwd -P > $@

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
[ ! -e $(1)/.installing ] || $(1)/bin/python -m ddp_lessons.workshop.half_installed; touch $(1)/.installing; \
if [ -n "$(TORCH)" ] && ! $(call find_uv,$(1)) >/dev/null; then $(1)/bin/python -m pip install uv || exit 1; fi; \
if uv=$$($(call find_uv,$(1))); then "$$uv" pip install --python $(1)/bin/python --compile-bytecode $(2); \
else $(1)/bin/python -m pip install --disable-pip-version-check $(2); fi && rm $(1)/.installing
endef
find_uv = { command -v uv || command -v $(1)/bin/uv; }

# A throwaway environment with the packages that $(1) asks for, within the range; the tests; and away with it (6 GB).
define test_with
trap 'rm -rf .venv-range .venv-range.unfinished' EXIT; trap 'exit 1' INT TERM; rm -rf .venv-range; \
$(call make_venv,.venv-range) && $(call install,.venv-range,-r requirements.txt -e ".[dev]" $(patsubst %,"%",$(1))) && \
.venv-range/bin/python -m ddp_lessons pair && .venv-range/bin/python -m pytest -n 3 tests $(without_browser)
endef
