# Everything a newcomer and CI need. `make` alone lists the targets. Safe with -j: within one run each is made once,
# and config/stack/set_up.py lets runs at the same time take turns.

PYTHON_BIN := .venv/bin/python
SET_UP = python=$$(sh config/stack/find_python.sh) && exec "$$python" -m config.stack.set_up
SERVICES = $(PYTHON_BIN) -m config.stack services
# Three at once on two cores: those with a whole installation mostly wait. Which share a process: tests/apart.py.
AT_ONCE = -n 3
WITH_PATH = PATH="$(CURDIR)/.venv/bin:$$PATH"

# The wheels are installed without bytecode (see set_up.py): the first import writes it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help app dev programs up down test check style types layers migrations bench explore storm chaos conformance

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

app:
	@$(SET_UP) app

dev:
	@$(SET_UP) dev

programs: dev
	@$(PYTHON_BIN) -m config.stack.external

up: app ## start everything on http://127.0.0.1:8000 (PORT=... for another one)
	@exec $(PYTHON_BIN) -m config.stack up $(if $(PORT),--port "$(PORT)")

down: ## stop what runs in this checkout
	@if [ -x $(PYTHON_BIN) ]; then exec $(PYTHON_BIN) -m config.stack down; else echo "Outlive is not running."; fi

test: dev programs ## run the tests (ARGS=... goes to pytest)
	@$(WITH_PATH) $(SERVICES) --fast -- $(PYTHON_BIN) -m pytest $(if $(ARGS),$(ARGS),$(AT_ONCE))
	@$(if $(ARGS),true,$(WITH_PATH) $(SERVICES) --fast -- $(PYTHON_BIN) -m pytest tests/browser $(AT_ONCE))

check: style types layers migrations test ## all that CI runs

style: dev ## ruff: rules and format
	$(PYTHON_BIN) -m ruff check
	$(PYTHON_BIN) -m ruff format --check

types: dev ## mypy, strict
	$(PYTHON_BIN) -m mypy

layers: dev ## imports go one way
	.venv/bin/lint-imports

migrations: dev ## no model change without its migration
	$(SERVICES) --fast -- $(PYTHON_BIN) manage.py makemigrations --check --dry-run

bench: dev programs ## JSON lines with their baselines
	@$(WITH_PATH) exec $(SERVICES) -- $(PYTHON_BIN) -m tests.bench $(ARGS)

explore: dev programs ## walk the interleavings deeper (ORDERS=, ONLY=), or replay one (TRACE=)
	@$(WITH_PATH) exec $(SERVICES) --fast -- $(PYTHON_BIN) -m tests.explore $(if $(ORDERS),--orders "$(ORDERS)") \
		$(if $(ONLY),--only "$(ONLY)") $(if $(TRACE),--trace "$(TRACE)")

storm: dev programs ## clients that come and go while doorbells are lost, doubled, swapped (ARGS="--clients 500 --seconds 60")
	@$(WITH_PATH) exec $(SERVICES) --fast -- $(PYTHON_BIN) -m tests.chaos.storm $(ARGS)

chaos: dev programs ## scenario x place x fault, with real processes: a table (ARGS="plain / freeze": some of it)
	@$(WITH_PATH) exec $(PYTHON_BIN) -m tests.chaos $(ARGS)

conformance: dev programs ## every case of the stream protocol with every client over every transport; a cut at each byte
	@$(WITH_PATH) CONFORMANCE=all $(SERVICES) --fast -- $(PYTHON_BIN) -m pytest tests/conformance $(ARGS)
