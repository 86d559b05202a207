#!/usr/bin/env bash
# Builds and tests on a machine with an NVIDIA GPU: the release preset, then every C test, those of the CUDA device and
# of the CUDA bindings among them. Installs nothing. Results go to $OUT (default build/gpu): machine.txt, build.log,
# cuda_tests.log, tests.log, summary.txt, and where PyTorch is there python_tests.log, what runs on the GPU beside
# PyTorch and ONNX's evaluator (models.log: gradients and fifty steps of whole models; graphs.log: GRAPHS random graphs;
# node_cases.log), and the figures of bench/gpu_rows.py, rows.md and rows.json, and of bench/gpu.py, gpu.md and
# gpu.json. The exit code is 0 only when the build is clean, no test failed, and none was left out for want of a GPU.
# SECONDS_ALL (default 470) bounds the whole: what no time is left for is told.
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
    [ $left -gt 5 ] || { say "$name: no time was left" && failed=1 && return; }
    timeout $((left < 270 ? left : 270)) "$@" >"$out/$name.log" 2>&1
    code=$?
    say "$name: exit $code, $((SECONDS - begin)) s: $(grep -E '[0-9]+ passed' "$out/$name.log" | tail -n 1)"
    grep -E '^FAIL|Sanitizer|Segmentation' "$out/$name.log" | head -n 40 | tee -a "$out/summary.txt"
    [ "$code" -eq 0 ] || { failed=1; tail -n 20 "$out/$name.log"; }
}

run cuda_tests build/release/nacre_tests cuda device binding
if grep '^not run: .*_cuda' "$out/cuda_tests.log" | grep -qv stand-ins; then
    say "the GPU was not used:"
    grep '^not run' "$out/cuda_tests.log" | head -n 3 | tee -a "$out/summary.txt"
    failed=1
fi
run tests build/release/nacre_tests
if python3 -c 'import torch, onnx, pytest' 2>/dev/null && [ -e build/release/python/nacre/_core.abi3.so ]; then
    run python_tests python3 -m pytest -q tests/py/test_binding.py tests/py/test_state.py
    NACRE_TEST_DEVICE=cuda run models \
        python3 -m pytest -q tests/py/test_models_torch.py tests/py/test_gradients_torch.py \
        tests/py/test_gradients_differences.py
    NACRE_TEST_DEVICE=cuda NACRE_GRAPHS=${GRAPHS:-1000} run graphs \
        python3 -m pytest -q tests/py/test_random_graphs.py tests/py/test_random_gradients.py
    run node_cases python3 tests/conformance/on_cuda.py
    grep -E 'WRONG|numeric node cases' "$out/node_cases.log" | tee -a "$out/summary.txt"
    run rows python3 bench/gpu_rows.py --out "$out"
    cat "$out/rows.md" 2>/dev/null | tee -a "$out/summary.txt"
    run bench python3 bench/gpu.py --out "$out"
    cat "$out/gpu.md" 2>/dev/null | tee -a "$out/summary.txt"
fi
exit $failed
