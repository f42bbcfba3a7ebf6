# make train   train the book's LeNet on MNIST and plot the result
# make test    run the whole test suite
# make lint    ruff and mypy
# make docs    the documents and the API reference as HTML, in build/docs; a warning is an error
# make test-versions   run the tests that need no GPU on older and newer cuDNN, for CUDA 12 and 13
# make coverage        write docs/coverage.md from what that found
# All make .venv first. Nothing but Python >= 3.10, gcc and make is needed.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

# The CUDA major of the NVIDIA driver, empty without one: the driver's own number is 1000 * major.
CUDA_MAJOR := $(shell $(PYTHON) scripts/driver_cuda_major.py)
CUDA_EXTRA := $(if $(CUDA_MAJOR),cu$(CUDA_MAJOR))
# The real libcudnn's descriptors are tested without a GPU, where NVIDIA's wheels exist.
TEST_CUDA_EXTRA := $(or $(CUDA_EXTRA),$(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),cu13))

empty :=
space := $(empty) $(empty)
comma := ,
# $(call extras,a b) is [a,b]
extras = [$(subst $(space),$(comma),$(strip $(1)))]

SOURCES := pyproject.toml setup.py $(wildcard pycudnn/*.pyx pycudnn/*.pxd)

.PHONY: train test test-versions coverage lint docs clean

train: $(VENV)/ready-train
	$(RUN) examples/train.py --plot training.png

test: $(VENV)/ready-test
	$(RUN) -m pytest

test-versions: $(VENV)/ready-test
	$(RUN) scripts/test_versions.py

coverage: $(VENV)/ready-test
	$(RUN) scripts/make_coverage.py

lint: $(VENV)/ready-test
	$(RUN) -m ruff check .
	$(RUN) -m mypy

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade pip

$(VENV)/ready-train: $(VENV)/bin/python $(SOURCES)
	$(RUN) -m pip install --quiet --editable ".$(call extras,plot train $(CUDA_EXTRA))"
	touch $@

$(VENV)/ready-test: $(VENV)/bin/python $(SOURCES)
	$(RUN) -m pip install --quiet --editable ".$(call extras,dev $(TEST_CUDA_EXTRA))"
	touch $@ $(VENV)/ready-train

docs: $(VENV)/ready-test
	$(RUN) -m sphinx -q -W --keep-going -b html docs build/docs

clean:
	rm -rf $(VENV) build dist *.egg-info training.png pycudnn/*.so pycudnn/_*.c
