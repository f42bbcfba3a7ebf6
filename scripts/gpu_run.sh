#!/usr/bin/env bash
# Everything that needs a GPU machine, offline and with the current interpreter, built in place.
#
#   scripts/gpu_run.sh [OUTPUT [PART...]]   results as JSON, default benchmarks/results, all parts
#
# Parts: tests       the whole suite, in several processes where pytest-xdist is installed
#        checks      random problems for every function, the fuzzer, a step under memcheck
#        benchmarks  the examples that measure, and the quick benchmarks
set -uo pipefail
cd "$(dirname "$0")/.."
output=$(mkdir -p "${1:-benchmarks/results}" && cd "${1:-benchmarks/results}" && pwd)
parts=("${@:2}")
[ ${#parts[@]} -gt 0 ] || parts=(tests checks benchmarks)
python=${PYTHON:-python3}
export PYTHONPATH="$PWD:$PWD/benchmarks${PYTHONPATH:+:$PYTHONPATH}"
failed=0

step() {
    echo "== $*"
    "$@" || { echo "== failed ($?): $*"; failed=1; }
}

tests() {
    local run=("$python" -m pytest -q -p no:cacheprovider) processes=()
    "$python" -c 'import xdist' 2>/dev/null && processes=(-n 12)
    step "${run[@]}" "${processes[@]}" -m "not whole_gpu"
    step "${run[@]}" -m whole_gpu
}

checks() {
    step "$python" tests/conformance/run.py --backend cuda --problems 4000 --output "$output"
    step "$python" tests/fuzz/run.py --backend cuda --workers 12 --output "$output"
    if command -v compute-sanitizer >/dev/null; then
        step compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 \
            "$python" examples/train.py --backend cuda --steps 1
    else
        echo "== failed: without compute-sanitizer no step was checked for memory errors"
        failed=1
    fi
}

benchmarks() {
    local name
    for name in convolution_by_hand graph_conv_bias_relu graph_matmul_bias_gelu graph_engines \
        graph_knobs; do
        step "$python" "examples/$name.py" --backend cuda --output "$output"
    done
    for name in call_overhead train_step accuracy; do
        step "$python" "benchmarks/$name.py" --output "$output"
    done
}

for part in "${parts[@]}"; do
    case $part in
        tests | checks | benchmarks) ;;
        *) echo "no part $part: tests, checks and benchmarks are the parts" >&2; exit 2 ;;
    esac
done
step "$python" setup.py --quiet build_ext --inplace
step "$python" -m pycudnn
for part in "${parts[@]}"; do
    "$part"
done
exit $failed
