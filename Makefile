# Everything a newcomer and CI need. `make` alone lists the targets. Safe with -j: within one run each is made once,
# and config/stack/set_up.py lets runs at the same time take turns.

PYTHON_BIN := .venv/bin/python
SET_UP = python=$$(sh config/stack/find_python.sh) && exec "$$python" -m config.stack.set_up
SERVICES = $(PYTHON_BIN) -m config.stack services
WITH_PATH = PATH="$(CURDIR)/.venv/bin:$$PATH"

# The wheels are installed without bytecode (see set_up.py): the first import writes it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help app dev programs up down test check style types layers migrations bench

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
	@$(WITH_PATH) $(SERVICES) --fast -- $(PYTHON_BIN) -m pytest $(ARGS)
	@$(if $(ARGS),true,$(WITH_PATH) $(SERVICES) --fast -- $(PYTHON_BIN) -m pytest tests/browser)

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
