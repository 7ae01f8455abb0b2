# make demo   set-up, then compare reductions on a built-in data set: report.html
# make test   set-up and all tests
# make check  everything CI runs
VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.PHONY: demo test check format lint types imports pytest slow clean

demo: $(STAMP)
	$(VENV)/bin/outcode compare --preset quick

test: check

check: lint types imports pytest

$(STAMP): pyproject.toml
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e ".[app,test,dev]"
	touch $@

format: $(STAMP)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

lint: $(STAMP)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .

types: $(STAMP)
	$(VENV)/bin/mypy

imports: $(STAMP)
	$(VENV)/bin/lint-imports

pytest: $(STAMP)
	$(PY) -m pytest -n 2 -q

slow: $(STAMP)
	$(PY) -m pytest -q -m slow

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info
