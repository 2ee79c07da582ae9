# make quickstart   install, train a tagger and an entity recognizer, and use them
# make test         build a wheel, and run the linters and all tests that need no further extra
# make skipped      run the tests that `make test` skipped, with EXTRAS=serve,torch,torch-test,transformers; DESELECT=FILE..
# make extras       run what .ci/run leaves out: the tests of all other extras, of a browser, of accessibility, of a Label
#                   Studio server, and the site; needs Debian's chromium, chromium-driver and npm
# make engine       test bcrf where nothing but NumPy is installed, then with PyTorch, then with scikit-learn
# make sanitize     run the tests of kernels with AddressSanitizer, UBSan and ThreadSanitizer
# make foreign      compile the kernels with clang, for Windows under Wine, and for aarch64 under QEMU, and
#                   compare with an oracle; needs clang, lld, mingw-w64, wine, g++-aarch64-linux-gnu and qemu-user;
#                   on Debian 12, Clang finds the headers of MinGW after
#                   ln -s 12-posix /usr/lib/gcc/x86_64-w64-mingw32/12
# make fuzz         run all fuzz targets with AddressSanitizer and UBSan; SECONDS=60 in all
# make attack       run random attacks for MINUTES=1, or with 0 those of .ci/run; SEED=... repeats one
# make conformance   run the tests of other libraries on ours, and write tests/conformance/README.md; PEERS=DIR has
#                   their sources, by default those of PyPI; SUITES=... selects
# make reproducible build the last commit twice, and compare the bytes of the wheels and source distributions
# make test-label-studio   exchange tasks with a Label Studio server, in an environment of its own
# make models       build the wheels of the pipelines that ship into dist: train, calibrate, control, report, package;
#                   MODEL=en_bcrf_web builds one, CORPORA=DIR reads corpora in a folder in place of a download
# make test-models  install these wheels in a new environment, and run what their cards show; push one to a stand-in
#                   of the Hugging Face hub
# make test-image   run the steps of the Dockerfile in clean environments, and ask its server
# make check-wheel  check the wheel and the source distribution in dist/ as PyPI does
# make compile-commands   write compile_commands.json, which tells an editor how to compile a C++ file
# make gpu          run everything that needs a GPU, and write gpu-report.md; a call takes 8 minutes at most, and the
#                   next one continues; needs EXTRAS=dev,bench,cuda12x
# make docs         build the documentation site in build/site
PYTHON ?= python3
EXTRAS ?= dev
VENV := .venv
BIN := $(VENV)/bin
CXX_FILES := $(shell find bcrf/kernels -name "*.hh" -o -name "*.cc")
# All builds share these object files, so the wheel of `make test` compiles little again.
export BCRF_OBJECTS ?= $(CURDIR)/build/objects
# Python compiles a module when it is first imported. pip would compile all of them, also those that nothing imports.
export PIP_NO_COMPILE ?= 1
PACKAGED := README.md $(shell find bcrf spacy_bcrf -type f -not -name "*.so" -not -name "*.cpp" -not -name "*.pyc")
SOURCES := setup.cfg setup.py pyproject.toml $(wildcard bcrf/kernels/*.p[yx]*) $(CXX_FILES)

.PHONY: quickstart test lint installed skipped compile-commands clean

quickstart: $(VENV)/installed
	$(BIN)/python -m spacy project run english
	$(BIN)/python -m experiments.quickstart training/english/model-best metrics/english.json \
		"John Smith left Enron for Houston last week." \
		"Google opened an office in New York." \
		"President Bush flew to Baghdad on Monday."

# The linters run while the wheel is built. They need one core.
test: $(VENV)/$(EXTRAS)
	$(MAKE) --jobs 2 lint installed

lint: $(VENV)/$(EXTRAS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest tests/kernels/test_readme.py tests/test_docs.py -k "readme and not python_blocks"

# PYTHONPATH puts the wheel before the editable installation.
IN_WHEEL := cd dist/source && PYTHONPATH=$(CURDIR)/dist/installed $(CURDIR)/$(BIN)/python -m
# A third of the time of the tests is waiting for processes, servers and files, so there are half more workers than cores.
WORKERS := $(shell $(PYTHON) -c "import os; print(os.cpu_count() * 3 // 2)")
PYTEST := pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -rs --durations=15
SKIPPED := $(CURDIR)/dist/skipped

# Build the source distribution, and a wheel from it. Test the wheel by the tests of the source
# distribution. They change parts of spaCy and NumPy, so one job does not.
installed: $(VENV)/$(EXTRAS)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/pip install --quiet --no-deps --target dist/installed dist/spacy_bcrf-*.whl
	mkdir dist/source
	tar xzf dist/*.tar.gz --strip-components 1 -C dist/source
	rm -r dist/source/bcrf dist/source/spacy_bcrf dist/source/spacy_bcrf.egg-info
	touch dist/wheel
	export BCRF_SKIPPED=$(SKIPPED); $(IN_WHEEL) $(PYTEST)
	$(IN_WHEEL) tests.unpatched

# A wheel of the current files, if `make test` has not built it.
dist/wheel: $(SOURCES) $(PACKAGED) | $(VENV)/dev
	rm -f dist/spacy_bcrf-*.whl
	$(BIN)/python -m build --no-isolation --wheel --outdir dist .
	touch $@

skipped: $(VENV)/$(EXTRAS)
	test -s $(SKIPPED) || { echo "no list of skipped tests: run make test first"; exit 1; }
	$(IN_WHEEL) $(PYTEST) @$(SKIPPED) $(patsubst %,--deselect %,$(DESELECT))

# What .ci/run leaves out, with the wheel of `make test`. Chromium and its driver are packages of Debian. pip leaves out
# ray where Python is too new for it, so its tests are skipped there.
RARE := browser,identifiers,litellm,loggers,models,nvrtc,pandas,parquet,presidio,ray,remote,remote-test,tables-test
RARE := $(RARE),tokenizers-test,vault
AXE := build/axe

.PHONY: extras
extras: $(AXE)/node_modules docs
	BCRF_AXE=$(CURDIR)/$(AXE) BCRF_SITE=$(CURDIR)/build/site $(MAKE) skipped EXTRAS=dev,serve,onnx,$(RARE)
	$(MAKE) test-label-studio

$(AXE)/node_modules:
	mkdir -p $(AXE) && npm install --silent --prefix $(AXE) axe-core

# The engine alone: a wheel without what spacy-bcrf requires. PyTorch comes from a wheel on disk, where there is one: its
# wheels for a CPU are on another server than PyPI. The kernels know no library, so `make test` alone runs their tests.
ENGINE := .venv-engine
ENGINE_TESTS := $(addprefix $(CURDIR)/tests/,chain io linear interfaces)
TORCH := $(firstword $(wildcard $(or $(PIP_FIND_LINKS),/opt/wheels)/torch-*+cpu-*.whl))
RUN_ENGINE = cd $(ENGINE) && bin/python -m pytest -c $(CURDIR)/pyproject.toml -o pythonpath= -p no:cacheprovider -rs \
	-m "not slow" --hypothesis-profile few

# PyTorch is large, so environments share one folder. pip takes what lies there as installed.
build/torch:
	rm -rf $@.new && $(PYTHON) -m pip install --quiet --target $@.new "$(TORCH)"
	mv $@.new $@

%/torch.pth: build/torch
	echo $(CURDIR)/$< > "$$($*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
	touch $@

# An environment with NumPy alone. It serves once: the job installs more.
$(ENGINE)/numpy:
	rm -rf $(ENGINE) && $(PYTHON) -m venv $(ENGINE)
	$(ENGINE)/bin/pip install --quiet numpy pytest hypothesis
	touch $@

.PHONY: engine
engine: dist/wheel $(ENGINE)/numpy
	rm $(ENGINE)/numpy
	$(ENGINE)/bin/pip install --quiet --no-deps dist/spacy_bcrf-*.whl
	! $(ENGINE)/bin/python -c "import spacy" 2>/dev/null
	$(RUN_ENGINE) $(ENGINE_TESTS)
ifdef TORCH
	$(MAKE) $(ENGINE)/torch.pth
	$(RUN_ENGINE) $(CURDIR)/tests/interfaces/test_torch.py
else
	@echo "SKIPPED tests/interfaces/test_torch.py: no torch-*+cpu-*.whl in $(or $(PIP_FIND_LINKS),/opt/wheels)"
endif
	$(ENGINE)/bin/pip install --quiet scikit-learn
	$(RUN_ENGINE) $(CURDIR)/tests/interfaces/test_sklearn.py

# Label Studio pins packages that spaCy needs in other versions, so it has its own environment.
LABEL_STUDIO := .venv-label-studio

.PHONY: test-label-studio
test-label-studio: $(VENV)/$(EXTRAS) $(LABEL_STUDIO)/installed
	LABEL_STUDIO=$(CURDIR)/$(LABEL_STUDIO)/bin/label-studio \
		$(BIN)/python -m pytest -rs tests/corpora/test_label_studio_server.py

$(LABEL_STUDIO)/installed: setup.cfg | $(VENV)/installed
	test -d $(LABEL_STUDIO) || $(PYTHON) -m venv $(LABEL_STUDIO)
	$(BIN)/python -c 'from importlib.metadata import requires; print(*(r.split(";")[0] \
		for r in requires("spacy-bcrf") if "\"label-studio\"" in r), sep="\0", end="\0")' \
		| xargs -0 $(LABEL_STUDIO)/bin/pip install --quiet
	touch $@

$(VENV)/installed: $(SOURCES)
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

# Install the requirements of the extras alone: with the package, pip compiles the extensions again.
# --use-pep517: pip 23 runs the setup.py of seqeval without its requirements.
$(VENV)/%: $(VENV)/installed
	$(BIN)/python -c 'from importlib.metadata import requires; print(*(r.split(";")[0] \
		for r in requires("spacy-bcrf") for extra in "$*".split(",") if f"\"{extra}\"" in r), \
		sep="\0", end="\0")' | xargs -0 $(BIN)/pip install --quiet --use-pep517
	touch $@

# Extensions with sanitizers, in folders of their own. Python itself has none, so the library must be
# loaded first.
SANITIZERS := build/sanitize
ASAN := -fsanitize=address,undefined -fno-sanitize-recover=undefined
TSAN := -fsanitize=thread
SECONDS ?= 60

.PHONY: sanitize fuzz $(SANITIZERS)/asan $(SANITIZERS)/tsan
$(SANITIZERS)/asan $(SANITIZERS)/tsan: $(VENV)/$(EXTRAS)
	BCRF_OBJECTS=$@-objects CFLAGS="$(if $(findstring asan,$@),$(ASAN),$(TSAN)) -O1 -g -fno-omit-frame-pointer" \
	LDFLAGS="$(if $(findstring asan,$@),$(ASAN),$(TSAN))" \
		$(BIN)/python setup.py --quiet build --build-lib $@

# Pytest captures what a sanitizer prints, and a test may ignore how a process that it starts ends. So all reports
# go to files, and NO_REPORTS prints them and fails if one names an error. AddressSanitizer also warns where it gives up
# a check of its own, on the stack of a signal handler.
REPORTS := $(CURDIR)/$(SANITIZERS)/reports
NO_REPORTS = status=$$?; cat $(REPORTS)/* 2>/dev/null; \
	grep -qsE "ERROR: |runtime error: |: ThreadSanitizer: |CHECK failed" $(REPORTS)/* && exit 1; exit $$status

# The folder of the sanitized package comes before the clone on the path. detect_leaks: Python keeps
# memory until it exits.
RUN_ASAN = rm -rf $(REPORTS); mkdir -p $(REPORTS); \
	PYTHONPATH=$(CURDIR)/$(SANITIZERS)/asan:$(CURDIR) LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) \
	$$($(CXX) -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0:log_path=$(REPORTS)/asan \
	UBSAN_OPTIONS=print_stacktrace=1:log_path=$(REPORTS)/ubsan
RUN_TSAN = rm -rf $(REPORTS); mkdir -p $(REPORTS); \
	PYTHONPATH=$(CURDIR)/$(SANITIZERS)/tsan:$(CURDIR) LD_PRELOAD=$$($(CXX) -print-file-name=libtsan.so) \
	TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp:log_path=$(REPORTS)/tsan"

sanitize: $(SANITIZERS)/asan $(SANITIZERS)/tsan
	$(RUN_ASAN) $(BIN)/pytest -x -o pythonpath= -m "not slow and not gpu" \
		-p no:cacheprovider tests/kernels tests/attack tests/chain tests/linear tests/sparse tests/layers/test_cnn.py \
		--ignore tests/kernels/test_cuda.py --ignore tests/kernels/test_headers.py \
		-k "not running_out_of_memory"; $(NO_REPORTS)
	$(RUN_TSAN) $(BIN)/pytest -x -o pythonpath= -m "not slow and not gpu" \
		-p no:cacheprovider tests/kernels/test_threads.py tests/layers/test_cnn.py \
		-k "not running_out_of_memory and not worker_processes"; $(NO_REPORTS)

fuzz: $(SANITIZERS)/asan
	cd tests && $(RUN_ASAN) $(abspath $(BIN)/python) -m tests.fuzz --seconds $(SECONDS); $(NO_REPORTS)

MINUTES ?= 1

.PHONY: attack
attack: $(VENV)/$(EXTRAS)
	BCRF_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=$(CURDIR):$(CURDIR)/tests \
		$(BIN)/python -m tests.attack --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# The source distributions that have the tests of their libraries, and need no compilation. Those of seqeval have
# conlleval.pl.
SDISTS := nervaluate seqeval sklearn-crfsuite
PEERS ?= build/peers

.PHONY: conformance
conformance: $(VENV)/$(EXTRAS) $(PEERS)
	$(BIN)/python -m tests.conformance --sources $(PEERS) $(SUITES)

build/peers:
	rm -rf $@.*
	$(PYTHON) -m pip download --quiet --use-pep517 --no-deps $(SDISTS:%=--no-binary %) --dest $@.sdists $(SDISTS)
	for name in $(SDISTS); do \
		mkdir -p $@.new/$$name && tar xzf $@.sdists/$$(echo $$name | tr - _)-*.tar.gz \
			--strip-components 1 -C $@.new/$$name || exit 1; \
	done
	ln -s seqeval/tests $@.new/conlleval
	mv $@.new $@

# Two builds of the last commit in two folders, without shared object files. SOURCE_DATE_EPOCH is the time of all files in
# the wheel and the source distribution.
.PHONY: reproducible
reproducible: $(VENV)/$(EXTRAS)
	for n in 1 2; do \
		rm -rf build/reproducible-$$n && git clone -q . build/reproducible-$$n/source || exit 1; \
		env -u BCRF_OBJECTS SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation \
			--outdir build/reproducible-$$n build/reproducible-$$n/source || exit 1; \
	done
	cmp build/reproducible-1/*.whl build/reproducible-2/*.whl
	cmp build/reproducible-1/*.tar.gz build/reproducible-2/*.tar.gz

# The site needs an extra of its own, and nothing compiled: it reads the sources. Warnings are errors, and so is a page
# that loads from a network.
DOCS := .venv-docs

$(DOCS)/installed: setup.cfg
	test -d $(DOCS) || $(PYTHON) -m venv $(DOCS)
	$(PYTHON) -c 'import configparser as c; f = c.ConfigParser(); f.read("setup.cfg", "utf8"); \
		print(*f["options.extras_require"]["docs"].split(), sep="\0", end="\0")' \
		| xargs -0 $(DOCS)/bin/pip install --quiet
	touch $@

.PHONY: docs
docs: $(DOCS)/installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	! grep -rE '<(script|link|img)[^>]* (src|href)="?https?:' --include='*.html' build/site

MODEL ?=
CORPORA ?=

.PHONY: models test-models test-image check-wheel
models:
	$(MAKE) EXTRAS=dev,models $(VENV)/dev,models
	$(BIN)/python -m models.build $(MODEL) $(if $(CORPORA),--corpora $(CORPORA))

# The test installs wheels from PyPI.
test-models: dist/wheel
	BCRF_MODELS="$(wildcard dist/??_bcrf_*.whl)" BCRF_WHEEL="$$(ls $(CURDIR)/dist/spacy_bcrf-*.whl)" \
		$(BIN)/python -m pytest -rsP tests/test_model_wheel.py

test-image: $(VENV)/$(EXTRAS)
	BCRF_IMAGE=1 $(BIN)/python -m pytest -rs tests/cli/test_image.py

check-wheel: $(VENV)/$(EXTRAS)
	$(BIN)/pip install --quiet twine check-wheel-contents auditwheel
	$(BIN)/twine check --strict dist/spacy_bcrf-*.whl dist/*.tar.gz
	$(BIN)/check-wheel-contents dist/spacy_bcrf-*.whl
	$(BIN)/auditwheel show dist/spacy_bcrf-*.whl

# The kernels of another compiler, system and processor, without Python.
FOREIGN := build/foreign
CLANG ?= clang++
LLD ?= lld
FOREIGN_FILES := tests/kernels/check_vectors.cc $(wildcard bcrf/kernels/cpu/targets/*.cc)
FOREIGN_FLAGS := -O2 -std=c++17 -fno-math-errno -fno-trapping-math -ffp-contract=fast -fopenmp-simd -fno-tree-vectorize \
	-pthread -Ibcrf/kernels -Ibcrf/kernels/cpu
WINE := WINEPREFIX=$(CURDIR)/$(FOREIGN)/wine WINEDEBUG=-all $(firstword $(wildcard /usr/lib/wine/wine64) wine)

.PHONY: foreign
foreign: $(FOREIGN)/clang $(FOREIGN)/windows.exe $(FOREIGN)/aarch64 $(FOREIGN)/vectors.bin
	for isa in $$($(BIN)/python -c "from bcrf import kernels; print(*kernels.instruction_sets())"); do \
		export BCRF_ISA=$$isa; \
		$(FOREIGN)/clang $(FOREIGN)/vectors.bin && \
		$(WINE) $(FOREIGN)/windows.exe $(FOREIGN)/vectors.bin || exit 1; \
	done
	qemu-aarch64 $(FOREIGN)/aarch64 $(FOREIGN)/vectors.bin

$(FOREIGN)/vectors.bin: $(VENV)/$(EXTRAS) tests/kernels/write_vectors.py
	mkdir -p $(FOREIGN)
	$(BIN)/python -m tests.kernels.write_vectors $@

$(FOREIGN)/clang: $(CXX_FILES) tests/kernels/check_vectors.cc
	mkdir -p $(FOREIGN)
	$(CLANG) $(FOREIGN_FLAGS) $(FOREIGN_FILES) -o $@

$(FOREIGN)/windows.exe: $(CXX_FILES) tests/kernels/check_vectors.cc
	mkdir -p $(FOREIGN)
	$(CLANG) --target=x86_64-w64-mingw32 -static -fuse-ld=$(LLD) $(FOREIGN_FLAGS) -Wno-deprecated-declarations $(FOREIGN_FILES) -o $@

$(FOREIGN)/aarch64: $(CXX_FILES) tests/kernels/check_vectors.cc
	mkdir -p $(FOREIGN)
	aarch64-linux-gnu-g++ $(FOREIGN_FLAGS) -Wno-psabi -static $(FOREIGN_FILES) -o $@

# Without the C++ files that Cython generates.
compile-commands:
	for file in $(CXX_FILES); do \
		printf '{"directory": "%s", "file": "%s", "command": "c++ -std=c++17 -x c++ -Ibcrf/kernels -Ibcrf/kernels/cpu -c %s"}\n' \
			"$(CURDIR)" "$$file" "$$file"; \
	done | sed '1s/^/[/; $$!s/$$/,/; $$s/$$/]/' > compile_commands.json

clean:
	rm -rf $(VENV) $(ENGINE) $(LABEL_STUDIO) $(DOCS) build dist corpus training metrics project.lock

# Run everything that needs a GPU, and write a report. On a machine without one, the command names
# what is missing.
REPORT ?= gpu-report.md

.PHONY: gpu
gpu: $(VENV)/$(EXTRAS)
	$(BIN)/python -m benchmarks.gpu --output $(REPORT)
