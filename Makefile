# Every target sets up what it needs by itself, says what it does, and is quick the second time.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-thorough test-long test-compat programs test-vm test-machines test-doors test-doors-brief lint docs docs-serve man bench bench-peers lock clean

PYTHON_IN_VENV := .venv/bin/python

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 18

setup:  ## make .venv, build the web page, see that a Docker engine answers, build the images
	@setup/venv
	@setup/page
	@setup/engine
	@$(PYTHON_IN_VENV) -m holdfast image build

demo: setup  ## capture a test run in its middle, kill it, restore it, fork it three ways
	@$(PYTHON_IN_VENV) -m bench.demo

# In the order of folders: those against the engine come first, small files fill up the end. A third process works
# while two wait for the disk or the engine.
TESTS := .venv/bin/pytest -n 3 --dist loadfile --no-loadscope-reorder

test: setup  ## run the tests, those against the engine included, but for those of `make test-thorough`
	@setup/terminals
	@setup/shells
	@setup/issuer
	@setup/bootstrap
	@$(TESTS) -m 'not thorough'

test-thorough: setup  ## run the tests of attacks, damage and interruptions, and of further machines and images
	@setup/terminals
	@setup/shells
	@setup/bootstrap
	@$(TESTS) -m thorough tests/integration

test-long: setup  ## run the tests that take many minutes: storms, kills at random moments, every program
	@setup/bootstrap disks
	@$(if $(WRITE),HOLDFAST_WRITE=1) .venv/bin/pytest tests/integration/long/test_*.py --timeout=3600

# PROJECT=NAME (or a kind), SEED=N, SNAPSHOTS=N; WRITE=1 writes docs/compat.md.
test-compat: setup  ## run the suites of real projects plain, captured and continued in copies, and compare
	@$(PYTHON_IN_VENV) -m tests.compat projects run $(PROJECT) $(if $(SEED),--seed $(SEED)) \
		$(if $(SNAPSHOTS),--snapshots $(SNAPSHOTS)) $(if $(WRITE),--write)

# PROGRAM=NAME (or a family) tries only that, and leaves docs/programs.md as it is.
programs: setup  ## capture, restore and fork real programs in the middle of their work; write docs/programs.md
	@$(PYTHON_IN_VENV) -m tests.compat programs run $(or $(PROGRAM),--write docs/programs.md)

test-vm: setup  ## run the tests that need another kernel, in virtual machines: AppArmor, cgroup v2
	@setup/bootstrap vm
	@$(if $(WRITE),HOLDFAST_WRITE=1) .venv/bin/pytest tests/integration/vm/test_*.py --timeout=7200 $(if $(CELL),-k $(CELL))

# CELL=WORD runs some, such as sid, vfs or trixie-containerd-root; WRITE=1 writes the table of docs/machines.md.
test-machines: setup  ## run the tests of other engines, image stores and users; write the table of what works
	@setup/bootstrap disks
	@$(if $(WRITE),HOLDFAST_WRITE=1) .venv/bin/pytest tests/integration/machines/test_*.py --timeout=3600 $(if $(CELL),-k $(CELL))

# E2B=FOLDER and CODE_INTERPRETER=FOLDER, checkouts of E2B's repositories, run their own tests as well.
test-doors: setup  ## run the suites of other people against the servers: MCP conformance, schemathesis, E2B clients, agent frameworks
	@setup/doors
	@$(PYTHON_IN_VENV) -m holdfast image build data
	@setup/browser
	@$(if $(E2B)$(CODE_INTERPRETER),setup/e2b-suites)
	@HOLDFAST_E2B=$(E2B) HOLDFAST_CODE_INTERPRETER=$(CODE_INTERPRETER) \
		$(TESTS) -n 2 tests/integration/doors/test_*.py

test-doors-brief: setup  ## run some of each of these suites, as CI does
	@setup/doors
	@setup/browser
	@$(PYTHON_IN_VENV) -m holdfast image build data
	@$(TESTS) -n 2 -m brief tests/integration/doors/test_*.py

lint:  ## check style and types
	@setup/venv
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	@setup/page --check

docs:  ## build the documentation as a site into build/docs, and check its links
	@setup/venv --docs
	@.venv/bin/mkdocs build --quiet

docs-serve:  ## show the documentation as a site, on port 8000 of this machine
	@setup/venv --docs
	@.venv/bin/mkdocs serve

man:  ## make the manual pages and the completions of shells, in build/man and build/completions
	@setup/venv
	@$(PYTHON_IN_VENV) setup/man_pages.py build

bench: setup  ## measure, and write the figures to bench/results
	@setup/venv --bench
	@$(PYTHON_IN_VENV) -m bench

bench-peers: setup  ## the same, next to other tools on the same machine
	@setup/venv --bench
	@$(PYTHON_IN_VENV) -m bench --peers

lock:  ## renew the lock files from pyproject.toml
	@setup/lock

clean:  ## remove what was made here; sessions, snapshots and images stay
	rm -rf .venv .doors .page .issuer runtime/page/built build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache bench/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
