#!/usr/bin/env bash
# Builds and tests on a machine with an NVIDIA GPU: the release preset, then side by side every C test, those of the
# CUDA device and of the CUDA bindings among them, and where PyTorch is there what runs on the GPU beside PyTorch and
# ONNX's evaluator; when all of that has ended, the figures of bench/gpu_rows.py, gpu.py and gpu_costs.py, with
# CARDS=1 those of gpu_cards.py. Installs nothing.
# Results go to $OUT (default build/gpu): machine.txt, build.log, summary.txt, NAME.log of each test (models_torch:
# gradients and fifty steps of whole models; random_*: GRAPHS random graphs each), rows.md, rows.json, gpu.md, gpu.json,
# costs.md. The exit code is 0 only when the build is clean, no test failed, and none was left out for want of a GPU.
# ROWS: parts of names, joined by ;, of the rows of gpu_rows.py that are wanted (default all).
# SECONDS_ALL (default 470) bounds the whole, SECONDS_ONE (270) each test: what no time is left for is told.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-build/gpu}
mkdir -p "$out"
export NACRE_CACHE=${NACRE_CACHE-$PWD/build/kernel_cache}

say() { echo "$*" | tee -a "$out/summary.txt"; }
: >"$out/summary.txt"
{
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    gcc --version | head -n 1
    cmake --version | head -n 1
    nvcc --version | tail -n 2
    lscpu | grep -E 'Model name|^CPU\(s\)'
} >"$out/machine.txt" 2>&1
cat "$out/machine.txt"

generator=()
command -v ninja >/dev/null && [ ! -f build/release/CMakeCache.txt ] && generator=(-G Ninja)
start=$SECONDS
if cmake --preset release "${generator[@]}" >"$out/build.log" 2>&1 &&
    cmake --build build/release -j "$(nproc)" >>"$out/build.log" 2>&1; then
    say "build: ok, $((SECONDS - start)) s"
else
    say "build: FAILED"
    grep -nE 'error|FAILED' "$out/build.log" | head -n 20
    tail -n 40 "$out/build.log"
    exit 1
fi

failed=0
# run NAME COMMAND...: its output to NAME.log, its closing line to the summary.
run() {
    local name=$1 begin=$SECONDS code left=$((${SECONDS_ALL:-470} - SECONDS))
    shift
    [ $left -gt 5 ] || { say "$name: no time was left" && return 1; }
    timeout $((left < ${SECONDS_ONE:-270} ? left : ${SECONDS_ONE:-270})) "$@" >"$out/$name.log" 2>&1
    code=$?
    say "$name: exit $code, $((SECONDS - begin)) s: $(grep -E '[0-9]+ passed' "$out/$name.log" | tail -n 1)"
    grep -E '^FAIL|Sanitizer|Segmentation' "$out/$name.log" | head -n 40 | tee -a "$out/summary.txt"
    [ "$code" -eq 0 ] || tail -n 20 "$out/$name.log"
    return "$code"
}
# beside NAME COMMAND...: the same in the background; `joined` waits for all of them.
children=()
beside() {
    run "$@" &
    children+=($!)
}
joined() {
    local child
    for child in "${children[@]}"; do wait "$child" || failed=1; done
    children=()
}

python=
python3 -c 'import torch, onnx, pytest' 2>/dev/null && [ -e build/release/python/nacre/_core.abi3.so ] && python=yes
beside tests build/release/nacre_tests --jobs 6
if [ $python ]; then
    beside python_tests python3 -m pytest -q tests/py/test_binding.py tests/py/test_state.py
    for models in models_torch gradients_torch; do
        NACRE_TEST_DEVICE=cuda beside $models python3 -m pytest -q tests/py/test_$models.py
    done
    for part in 0 1 2 3; do
        NACRE_TEST_DEVICE=cuda NACRE_TEST_PART=$part/4 beside differences_$part \
            python3 -m pytest -q tests/py/test_gradients_differences.py
    done
    for graphs in graphs gradients; do
        NACRE_TEST_DEVICE=cuda NACRE_GRAPHS=${GRAPHS:-1000} beside random_$graphs \
            python3 -m pytest -q tests/py/test_random_$graphs.py
    done
    beside node_cases python3 tests/conformance/on_cuda.py
fi
joined
if grep '^not run: .*_cuda' "$out/tests.log" | grep -qv stand-ins; then
    say "the GPU was not used:"
    grep '^not run' "$out/tests.log" | head -n 3 | tee -a "$out/summary.txt"
    failed=1
fi
if [ $python ]; then
    grep -E 'WRONG|numeric node cases' "$out/node_cases.log" | tee -a "$out/summary.txt"
    run rows python3 bench/gpu_rows.py --out "$out" ${ROWS:+--only "$ROWS"} || failed=1
    [ -z "${CARDS:-}" ] || run cards env OUT="$out" python3 bench/gpu_cards.py || failed=1
    cat "$out/rows.md" 2>/dev/null | tee -a "$out/summary.txt"
    run bench python3 bench/gpu.py --out "$out" || failed=1
    cat "$out/gpu.md" 2>/dev/null | tee -a "$out/summary.txt"
    run costs python3 bench/gpu_costs.py --out "$out" || failed=1
    cat "$out/costs.md" 2>/dev/null | tee -a "$out/summary.txt"
fi
exit $failed
