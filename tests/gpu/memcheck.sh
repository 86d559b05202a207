#!/usr/bin/env bash
# The C tests of the CUDA device, of its kernels and of whole blocks under compute-sanitizer, and where there is PyTorch
# ONNX's node cases and the gradients of every operator: memcheck (reads and writes outside of blocks, which then have
# the size asked for), racecheck (memory shared inside of a block of threads) and synccheck (barriers that not all
# threads reach). The last two leave the node cases out, racecheck also central differences, which take it too long.
# The tool sees a process it started, not one that was forked there, so tests go to processes of their own, STEP
# (default 4) C tests in each, PARTS (6) for a file in Python. Calls that tests make fail on purpose are not told.
# Results go to $OUT (default build/gpu): memcheck.txt, and what each tool printed in memcheck.log, racecheck.log and
# synccheck.log. The exit code is 0 when nothing was found, 1 when something was, a test failed or a command did not
# come to its end, 77 where there is no compute-sanitizer or it does not know the machine.
# SECONDS_ONE (default 600) bounds each tool, JOBS (8) is how many processes run at once, TOOLS names the tools to run.
# Installs nothing.
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

# in_c PATTERN...: commands for the C tests that reach a GPU, those of all cases first, since they take longest.
in_c() {
    $tests --list "$@" | grep -v '_guard$\|_cpu$\|text_test.c\|standin_test.c' |
        awk '/cases_devices/ {print; next} {rest = rest $0 "\n"} END {printf "%s", rest}' |
        xargs -n "${STEP:-4}" echo $tests
}

# in_python COMMAND...: commands for its parts.
in_python() {
    local part parts=${PARTS:-6}
    python3 -c 'import torch, onnx, pytest' 2>/dev/null && [ -e build/release/python/nacre/_core.abi3.so ] || return
    for ((part = 0; part < parts; part++)); do
        echo env NACRE_TEST_DEVICE=cuda NACRE_TEST_PART=$part/$parts python3 "$@"
    done
}

# under TOOL: 0 where it found nothing in the commands it reads.
under() {
    local begin=$SECONDS n clean bad
    export tool name=$1 parts
    parts=$(mktemp -d)
    awk '{print NR, $0}' >"$parts/list"
    n=$(wc -l <"$parts/list")
    # shellcheck disable=SC2016 # the inner shell expands it
    timeout "${SECONDS_ONE:-600}" xargs -a "$parts/list" -P "${JOBS:-8}" -L 1 bash -c '
        part=$1 && shift
        "$tool" --tool "$name" --report-api-errors no --target-processes all --error-exitcode 9 "$@" \
            >"$parts/$part.log" 2>&1
        echo "part $part: exit $?: $*" | cut -c 1-200 >>"$parts/$part.log"' part
    cat "$parts"/*.log >"$out/$name.log"
    rm -r "$parts"
    clean=$(grep -c 'SUMMARY: 0' "$out/$name.log")
    bad=$(grep 'SUMMARY' "$out/$name.log" | grep -vc 'SUMMARY: 0')
    say "$name, $((SECONDS - begin)) s: C tests $(grep -hE '^[0-9]+ passed, [0-9]+ failed' "$out/$name.log" |
        awk '{p += $1; f += $3; s += $5} END {print p + 0 " passed, " f + 0 " failed, " s + 0 " not run"}');" \
        "Python tests $(grep -hE '^[0-9]+ passed.* in ' "$out/$name.log" | awk '{p += $1} END {print p + 0}') passed;" \
        "node cases $(grep -h 'numeric node cases' "$out/$name.log" | awk '{p += $3} END {print p + 0}');" \
        "commands $n, reports without a finding $clean, with one $bad"
    grep -E '^FAIL|^WRONG|Invalid|Error: |Race reported|Barrier error|^part [0-9]+: exit [1-9]' "$out/$name.log" |
        sort | uniq -c | sort -rn | head -n 20
    [ "$bad" -eq 0 ] && [ "$(grep -c '^part [0-9]*: exit 0:' "$out/$name.log")" -eq "$n" ]
}

"$tool" $tests kernel_launch_cuda >"$out/memcheck.log" 2>&1
if grep -q 'Device not supported\|not run: kernel_launch_cuda' "$out/memcheck.log"; then
    say "not run: $(grep -m1 'Device not supported\|not run' "$out/memcheck.log")"
    exit 77
fi
failed=0
for one in ${TOOLS:-memcheck racecheck synccheck}; do
    {
        [ "$one" != memcheck ] || in_python tests/conformance/on_cuda.py --here
        [ "$one" = racecheck ] || in_python -m pytest -q tests/py/test_gradients_differences.py
        in_python -m pytest -q tests/py/test_gradients_torch.py
        [ "$one" = memcheck ] && in_c cuda tests/cases_devices_test.c ||
            in_c src/ops/cuda_test.c tests/blocks_devices_test.c
    } | under "$one" || failed=1
done
exit $failed
