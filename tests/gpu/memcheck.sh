#!/usr/bin/env bash
# The C tests of the CUDA device, of its kernels and of whole blocks under compute-sanitizer: memcheck (reads and writes
# outside of blocks, which then have the size asked for), and racecheck for kernels that share memory inside of a block.
# Calls that tests make fail on purpose are not told. Results go to $OUT (default build/gpu): memcheck.txt, and what a
# tool found in memcheck.log and racecheck.log. The exit code is 0 when nothing was found, 1 when something was or a
# test failed, 77 where there is no compute-sanitizer or it does not know the machine.
# SECONDS_ONE (default 240) bounds each tool, JOBS (8) is how many tests run at once. Installs nothing.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-build/gpu} tests=build/release/nacre_tests
mkdir -p "$out"
: >"$out/memcheck.txt"
say() { echo "$*" | tee -a "$out/memcheck.txt"; }

tool=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null)
[ -n "$tool" ] || { say "not run: compute-sanitizer is not there" && exit 77; }
[ -x $tests ] || { say "not run: $tests is not built (cmake --preset release)" && exit 77; }
export NACRE_CUDA_KEEP=0 NACRE_CACHE=${NACRE_CACHE-$PWD/build/kernel_cache}

# under TOOL PATTERN...: 0 where it found nothing.
under() {
    local name=$1 code begin=$SECONDS
    shift
    timeout "${SECONDS_ONE:-240}" "$tool" --tool "$name" --report-api-errors no --target-processes all \
        --error-exitcode 9 $tests --jobs "${JOBS:-8}" "$@" >"$out/$name.log" 2>&1
    code=$?
    say "$name: exit $code, $((SECONDS - begin)) s: $(grep -E '[0-9]+ passed' "$out/$name.log" | tail -n 1);" \
        "$(grep -c 'ERROR SUMMARY: 0\|RACECHECK SUMMARY: 0' "$out/$name.log") processes without a finding," \
        "$(grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out/$name.log" | grep -vc 'SUMMARY: 0') with one"
    grep -E '^FAIL|Invalid|Error: |Race reported' "$out/$name.log" | sort | uniq -c | sort -rn | head -n 20
    [ "$code" -eq 0 ] && ! grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out/$name.log" | grep -qv 'SUMMARY: 0'
}

"$tool" $tests kernel_launch_cuda >"$out/memcheck.log" 2>&1
if grep -q 'Device not supported\|not run: kernel_launch_cuda' "$out/memcheck.log"; then
    say "not run: $(grep -m1 'Device not supported\|not run' "$out/memcheck.log")"
    exit 77
fi
failed=0
under memcheck src/ops/cuda_test.c src/device/device_test.c tests/blocks_devices_test.c tests/cases_devices_test.c \
    tests/cuda_ tests/skeleton/cuda_mlp || failed=1
under racecheck src/ops/cuda_test.c tests/blocks_devices_test.c || failed=1
exit $failed
