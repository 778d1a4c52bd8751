# Set up, open and test the course. `make` alone lists the commands.
# All paths are relative, because make can't handle folder names with spaces.

# make lab TORCH=cpu       the CPU build of torch, for machines without an NVIDIA GPU (or any --torch-backend of uv)
# make lab PYTHON=python3.12 JUPYTER_ARGS="--no-browser --port 9999"
TORCH =
PYTHON =
JUPYTER_ARGS =

py = .venv/bin/python
ready = .venv/.ready$(TORCH:%=-torch-%)

.PHONY: help lab test nightly run-tests lessons lint test-browser test-pip test-offline test-grading test-torch-range
.PHONY: test-stacks lists notebooks doctor bench gpu hosted site slides offline pins setup clean
.NOTPARALLEL:

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | awk -F '|' '{ printf "make %-18s %s\n", $$1, $$2 }'

# With `exec`, Ctrl-C reaches only Jupyter, and not a shell that would leave it running.
lab: setup  ## set up, then open a copy of the lessons (my_lessons/) in JupyterLab
	@exec $(py) -m ddp_lessons start --jupyter $(JUPYTER_ARGS) $${CI:+--no-browser}

# --- tests ----------------------------------------------------------------------------------------------------------
# All stages run, even if one fails; tests/stages.py then reruns the failed tests and lists them.
STAGES = lint run-tests lessons $(CI:%=test-pip) $(CI:%=test-browser)
test: setup .venv/.dev  ## set up, then run everything that must pass: lint, types, tests, lessons
	@$(py) tests/stages.py $(STAGES)

BESIDE_LOAD = run-tests-beside-load lessons-beside-load
nightly: setup .venv/.dev  ## run everything: all cases and seeds, under load, with other releases of torch; hours, 10 GB
	@ALL=yes $(py) tests/stages.py lint run-tests lessons test-browser $(BESIDE_LOAD) $(BESIDE_LOAD) $(BESIDE_LOAD) \
	  test-pip test-grading test-stacks test-torch-range

# make run-tests ALL=yes    also the tests marked nightly
# What the tests in a file share (a kernel, nodes, Slurm) is started once. By default, xdist would rerun a test that
# kills its worker in up to twelve new workers.
ALL ?=
tests = $(py) -m pytest $(ALL:%=-m "")
by_file = --dist loadfile --max-worker-restart 1
run-tests:
	$(tests) -n 3 $(by_file) --durations=10 tests --ignore=tests/browser --ignore=tests/texts

%-beside-load:  # flakes appear when each process gets little CPU time
	$(py) -c 'while True: pass' & one=$$!; $(py) -c 'while True: pass' & trap "kill $$one $$!" EXIT; $(MAKE) $* ALL=

# Copies in another folder show that the lessons need no other files. The later lessons take longest, so they start
# first. Three run at once, because many cells only wait: for torchrun, for a timeout, for a network link that was cut.
AT_ONCE ?= 3
lessons: setup .venv/.dev  ## run every lesson, and compare its outputs with the stored ones
	rm -rf .elsewhere && mkdir -p .elsewhere build && cp notebooks/*.ipynb .elsewhere
	DDP_LESSONS_MINUTES=build/minutes.json \
	  $(py) -m pytest -n $(AT_ONCE) --dist loadfile --no-loadscope-reorder --nbval $$(ls -r .elsewhere/*.ipynb)
	rm -rf .elsewhere

lint: setup .venv/.dev  ## check style, types and texts: words, links, minutes, lists
	$(py) -m ruff check .
	$(py) -m ruff format --check .
	$(py) -m pytest -q -p no:xdist tests/texts
	$(py) -m mypy

test-browser: setup .venv/.dev site slides  ## run the lessons and the site in a real browser; see .screenshots/
	$(tests) -n 2 --dist loadgroup tests/browser

test-pip: .venv-pip/.ready  ## run one lesson and some tests where plain pip has installed the course
	.venv-pip/bin/python -m ddp_lessons pair
	.venv-pip/bin/python -m pytest --nbval notebooks/00_*.ipynb
	.venv-pip/bin/python -m pytest tests/run/test_events.py tests/run/test_waits.py tests/run/test_causes.py

.venv-pip/.ready: requirements.txt pyproject.toml
	python3 -m venv --clear .venv-pip
	.venv-pip/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -e .
	touch $@

test-offline: setup .venv/.dev  ## download all wheels and install them without a network: 3 GB to download, 10 GB of disk
	$(py) -m pytest -m "" tests/offline/test_without_a_network.py

# In a separate environment, because nbgrader also extends JupyterLab.
test-grading:  ## grade four lessons with nbgrader and Otter, in .venv-grading: half an hour, 6 GB of disk
	@$(install) .venv-grading -r requirements.txt -e ".[grading]" $(torch_kind)
	.venv-grading/bin/python -m pytest -m "" -n 2 tests/grading/test_graders.py

# 2.12.0 is the oldest release that the course supports everywhere.
test-torch-range:  ## run the tests with the oldest and the newest supported torch
	@for torch in torch==2.12.0 torch; do $(test_with_torch) || exit; done

define test_with_torch
mkdir -p build && grep -vE "^(torch|torchvision|setuptools)==" tools/requirements-dev.txt > build/others.txt && \
$(install) .venv-range -r build/others.txt -e . torchvision "$$torch" && \
.venv-range/bin/python -m ddp_lessons pair && \
.venv-range/bin/python -m pytest -n 3 $(by_file) tests --ignore=tests/browser --ignore=tests/texts && \
.venv-range/bin/python -m pytest -n 3 --dist loadfile --nbval notebooks/[0-9]*.ipynb && rm -rf .venv-range
endef

# Each list in tests/stacks/ names its Python, which must be on PATH. TORCH=cpu uses the CPU build of the same torch.
test-stacks: $(patsubst tests/stacks/%.txt,test-stack-%,$(wildcard tests/stacks/*.txt))  ## test with the packages of Colab

# The course must not replace any of the published packages. Run the tests that need no other machine and no GPU.
test-stack-%: PYTHON = $(lastword $(subst -, ,$*))
test-stack-%:
	@$(install) .venv-stack -r tests/stacks/$*.txt $(TORCH:%=--torch-backend %)
	@$(install) .venv-stack -e ".[test]" expecttest py-spy pytest-xdist pyyaml
	@said=$$(.venv-stack/bin/python -m pip install --disable-pip-version-check --dry-run -r tests/stacks/$*.txt) && \
	  case "$$said" in *"Would install"*) echo "$$said"; exit 1;; esac
	@.venv-stack/bin/python -m ddp_lessons pair && .venv-stack/bin/python -m pytest -n 2 $(by_file) tests/run
	@.venv-stack/bin/python -m pytest tests/test_older_notebooks.py tests/test_hosted_kernel.py tests/show/test_scaling.py \
	  tests/show/test_every_figure.py tests/quiz/test_asking.py
	@.venv-stack/bin/python -m pytest -n 2 --dist loadfile --nbval notebooks/0[0-8]_*.ipynb
	@rm -rf .venv-stack

# --- for authors and instructors ------------------------------------------------------------------------------------
lists: setup  ## write the list of exercises and docs/where.md, and print the lessons' minutes for the guide
	@$(py) docs/lesson_table.py
	@$(py) docs/where.py

# make notebooks LESSONS="3 09"    by number or a part of the name; make notebooks NOTEBOOKS_ARGS=--twice
notebooks: setup  ## run lessons and store their outputs with the smallest diff
	@$(py) -m tools.authoring notebooks $(LESSONS) $(NOTEBOOKS_ARGS)

doctor: setup  ## check whether this machine is ready for the lessons
	@$(py) -m ddp_lessons doctor

bench: setup .venv/.dev  ## compare launch with other launchers, and measure training on two ranks
	@$(install) .venv -c tools/requirements-dev.txt -e ".[bench]"
	for name in launch recording training; do $(py) -m tools.benchmarks $$name || exit; done

# make gpu EXPERIMENTS="speed overlap"    without EXPERIMENTS, also the lessons whose cells use a GPU if there is one
gpu: setup .venv/.dev  ## on a machine with an NVIDIA GPU: run, check and record the experiments that need one
	@$(py) -m tools.authoring gpu $(EXPERIMENTS)
	@$(if $(EXPERIMENTS),,$(py) -m pytest -q --nbval $$(grep -lE 'cuda\.(is_available|device_count)\(\)|try_backends\(\)' notebooks/[0-9]*.ipynb))

hosted: setup  ## write the lessons for Colab and Kaggle into build/hosted
	@$(py) -m tools.authoring hosted

# two processes, because more would have to share the cores
site: setup .venv/.dev  ## build a site of the lessons and docs, build/site/index.html, which works without a network
	@rm -rf build/site && $(py) -m tools.site.staging build/pages
	@$(py) -m sphinx -c tools/site -E -d build/doctrees -j 2 -q -b html -W --keep-going build/pages build/site
	@$(py) -m tools.site.walk build/site

slides: setup .venv/.dev  ## build slides of the lessons, build/slides/index.html
	@$(py) -m tools.site.slides build/slides
	@$(py) -m tools.site.walk build/slides

# make offline FOR="linux macos" PYTHONS="3.11 3.12 3.13" TORCH=cpu TAR=yes    or WITHOUT=torch; see docs/offline.md
offline: setup  ## build a folder that installs the lessons without a network
	@$(py) -m tools.offline $(FOR:%=--for %) $(PYTHONS:%=--python %) $(TORCH:%=--torch %) $(TAR:%=--tar %) $(WITHOUT:%=--without %)

clean:  ## remove the virtual environment and what the tools have written
	rm -rf .elsewhere .elsewhere-* .screenshots build *.egg-info .venv .venv.unfinished .venv-*
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- setup ----------------------------------------------------------------------------------------------------------
# $(ready) records that the setup is complete, and in which folder, because the commands in .venv work only there.
# The setup runs again if anything has been installed since, because torch and torchvision may no longer match.
setup:  ## make .venv and install what the lessons need
	@[ ! -e $(ready) ] || [ "$$(cat $(ready))" = "$$(pwd -P)" ] || { echo "This folder was moved or copied from" \
	  "$$(cat $(ready)), so its .venv does not work here. Run make clean, then your command again." >&2; exit 1; }
	@$(MAKE) --no-print-directory --silent $(ready)

$(ready): requirements.txt pyproject.toml $(wildcard .venv/lib/python3*/site-packages .venv/.installing)
	@echo "Setting up .venv, which takes half a minute with uv and a few minutes with pip."
	@$(install) .venv -r requirements.txt -e . $(torch_kind)
	@echo "Checking whether torch and torchvision match, which takes a few seconds the first time."
	@$(py) -m ddp_lessons pair && $(py) -m compileall -q ddp_lessons && pwd -P > $@

.venv/.dev: tools/requirements-dev.txt | $(ready)
	@$(install) .venv -r tools/requirements-dev.txt && touch $(ready) $@

# ipykernel 7.0 to 7.3 sometimes loses a cell: the kernel is idle, but the cell never ends. torch and torchvision are
# one release behind the newest, like those of hosted notebooks and mirrors. torch itself pins the packages that it
# needs for a GPU; with TORCH=cpu, these aren't installed.
pinned = torch==2.14.1 torchvision==0.29.1 ipykernel!=7.0.*,!=7.1.*,!=7.2.*,!=7.3.*
pins: setup  ## write requirements.txt and tools/requirements-dev.txt from pyproject.toml, with the newest versions
	@$(call pin,requirements.txt,What the lessons run with)
	@$(call pin,tools/requirements-dev.txt,What contributors need on top,--extra dev -c requirements.txt)

# Write $(1), whose first line says $(2): exact versions for every supported Python on Linux and macOS.
define pin
{ echo "# $(2), in the versions that are tested; written by \`make pins\` from pyproject.toml." && \
printf '%s\n' $(pinned:%='%') | uv pip compile --quiet --universal --python-version 3.10 --no-header --no-annotate \
  --constraint /dev/stdin --extra lab --extra test $(3) pyproject.toml | \
  sed "/^\(nvidia\|cuda\|triton\)-*/d; /os_name == 'nt'$$/d; /sys_platform == 'win32'$$/d"; } > $(1).new && mv $(1).new $(1)
endef

install = PYTHON="$(PYTHON)" TORCH="$(TORCH)" sh tools/environment.sh
torch_kind = $(TORCH:%=--torch-backend % --reinstall-package torch --reinstall-package torchvision)
