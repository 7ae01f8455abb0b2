# make demo         set-up, then compare reductions on a built-in data set: report.html
# make test         set-up and everything CI runs: checks, tests, the package, the oldest dependencies
# make check        format, lint, types, import layers, fast tests (about 8 minutes on two cores)
# make docs         the site, warnings as errors: docs/_build/html/index.html
# make package      build the wheel and the sdist, install each into a clean environment, use it
# make sbom         the bill of materials of a clean installation: dist/outcode.cdx.json
# make test-oldest  the oldest supported dependencies; OLDEST=tests runs every test with them
# make coverage     line coverage of the library
# make slow         long experiments
# make torture      kills, full disks, damaged files, simulated studies, counted; MINUTES=600
VENV ?= .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PIP := -m pip install --quiet --disable-pip-version-check

# A subset that touches every dependency with a lower bound.
OLDEST ?= tests/test_classifier.py tests/test_decoders.py tests/test_svm.py tests/test_readers.py \
  tests/test_persistence.py tests/test_displays.py tests/test_streaming.py tests/test_cli_files.py tests/test_dask.py

.PHONY: demo test check format lint types imports pytest slow docs package sbom test-oldest coverage torture clean

demo: $(STAMP)
	$(VENV)/bin/outcode compare --preset quick

test: check package test-oldest

check: lint types imports pytest

$(STAMP): pyproject.toml
	python3 -m venv $(VENV)
	$(PY) $(PIP) -e ".[app,test,dev]"
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

MINUTES ?= 600
torture: $(STAMP)
	PYTHONPATH=tests $(PY) -m torture --minutes $(MINUTES)

coverage: $(STAMP)
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest -q
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report --skip-covered --sort=miss --fail-under=95

$(VENV)/.docs: $(STAMP)
	$(PY) $(PIP) -e ".[app,docs]"
	touch $@

docs: $(VENV)/.docs
	$(PY) -m sphinx -b html -W --keep-going -j 2 -q docs docs/_build/html

package: $(STAMP)
	rm -rf dist build/clean
	$(PY) -m build --outdir dist . > /dev/null
	for file in dist/*.whl dist/*.tar.gz; do \
	  python3 -m venv --clear build/clean && \
	  build/clean/bin/python $(PIP) "$$file[app]" && \
	  mkdir -p build/clean/tried && (cd build/clean/tried && ../bin/python $(CURDIR)/tools/try_package.py $(CURDIR)) \
	  || exit 1; done

# What `pip install "outcode[app]"` brings, in the CycloneDX format.
sbom: package
	$(PY) -m cyclonedx_py environment --pyproject pyproject.toml --of JSON \
	  -o dist/outcode.cdx.json build/clean/bin/python

.venv-oldest/.installed: pyproject.toml tools/lower_bounds.py
	python3.11 -m venv --clear .venv-oldest
	python3.11 tools/lower_bounds.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python $(PIP) -c .venv-oldest/constraints.txt -e ".[app,dask,test]"
	touch $@

# Old releases warn about newer ones beneath them, so warnings are no errors here.
test-oldest: .venv-oldest/.installed
	NUMBA_CACHE_DIR=.venv-oldest/numba .venv-oldest/bin/python -m pytest -n 2 -q -W default $(OLDEST)

clean:
	rm -rf $(VENV) .venv-oldest build dist docs/_build docs/gallery docs/api/generated *.egg-info src/*.egg-info
