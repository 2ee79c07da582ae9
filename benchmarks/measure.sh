#!/usr/bin/env bash
# Measure the figures of docs/benchmarks.md and docs/results.md anew, one after another, with one
# thread. About 25 minutes on two quiet cores. Needs the extra `bench` and the corpora.
#
#     BCRF_CORPORA=DIR PYTHON=.venv/bin/python bash benchmarks/measure.sh
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
export PYTHONPATH="$PWD" OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 BCRF_THREADS=1
measure() {
    echo "== $*"
    SECONDS=0
    timeout 1500 "$PYTHON" -m "$@" || echo "== failed: the older figures stay"
    echo "== $SECONDS s"
}
corpora=(--corpora "$BCRF_CORPORA")
measure benchmarks.accuracy "${corpora[@]}" --tasks wnut17 uner ewt-pos --steps 1000 \
    --only spacy crfsuite sparse clusters neural hybrid
measure experiments.annotated_share "${corpora[@]}" --limit 4000
measure experiments.calibration "${corpora[@]}" --splits 5 --limit 4000
measure experiments.control "${corpora[@]}" --max-units 1 4
measure benchmarks.acceleration
measure benchmarks.kernels
measure benchmarks.streaming
measure benchmarks.streams "${corpora[@]}"
"$PYTHON" -m benchmarks.pages
