#!/usr/bin/env bash
# Everything that needs a GPU machine, offline and with the current interpreter: build in place, run
# the whole suite (in several processes where pytest-xdist is installed), pose random problems to
# every function, fuzz the object face, check one training step for memory errors, run the quick
# benchmarks.
#
#   scripts/gpu_run.sh [OUTPUT]      results as JSON and logs, default benchmarks/results
set -uo pipefail
cd "$(dirname "$0")/.."
output=$(mkdir -p "${1:-benchmarks/results}" && cd "${1:-benchmarks/results}" && pwd)
python=${PYTHON:-python3}
export PYTHONPATH="$PWD:$PWD/benchmarks${PYTHONPATH:+:$PYTHONPATH}"
failed=0

step() {
    echo "== $*"
    "$@" || { echo "== failed ($?): $*"; failed=1; }
}

step "$python" setup.py --quiet build_ext --inplace
step "$python" -m pycudnn
processes=$("$python" -c 'import importlib.util as u; print("-n 12" if u.find_spec("xdist") else "")')
# shellcheck disable=SC2086
step "$python" -m pytest -q -p no:cacheprovider $processes
step "$python" tests/conformance/run.py --backend cuda --problems 4000 --output "$output"
step "$python" tests/fuzz/run.py --backend cuda --workers 12 --output "$output"
if command -v compute-sanitizer >/dev/null; then
    step compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 \
        "$python" examples/train.py --backend cuda --steps 1
else
    echo "== failed: compute-sanitizer is not on the PATH, so no step was checked for memory errors"
    failed=1
fi
for example in convolution_by_hand graph_conv_bias_relu graph_matmul_bias_gelu graph_engines \
    graph_knobs; do
    step "$python" "examples/$example.py" --backend cuda --output "$output"
done
for benchmark in call_overhead train_step accuracy; do
    step "$python" "benchmarks/$benchmark.py" --output "$output"
done
exit $failed
