#!/usr/bin/env bash
# The steps behind the Makefile: steps.sh STEP [ARGUMENT]. Every step prints one line when it starts and one when it
# ends; what a command printed is shown only when it failed. cmake and ninja are fetched into .venv where missing.
# A step whose tools are not on this machine says "not run" and why; it is never counted as passed.
set -u
cd "$(dirname "$0")/../.." || exit 1
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
venv=$PWD/.venv
not_run=() done_steps=()

works() { "$@" --version >/dev/null 2>&1; }
skip() { echo "    not run: $1: $2"; not_run+=("$1: $2"); }

# step TITLE COMMAND...: runs quietly; on failure shows the whole output and ends the script.
step() {
    local title=$1 log start=$SECONDS
    shift
    log=$(mktemp)
    echo "==> $title"
    if "$@" >"$log" 2>&1; then
        local closing
        closing=$(grep -oE '[0-9]+ passed.*' "$log" | tail -n 1)
        echo "    ok, $((SECONDS - start)) s${closing:+: $closing}"
        done_steps+=("$title | passed | $((SECONDS - start)) | ${closing:-}")
        rm -f "$log"
    else
        local code=$?
        cat "$log"
        rm -f "$log"
        echo "FAILED ($code): $title: $*" >&2
        done_steps+=("$title | FAILED | $((SECONDS - start)) | ")
        ${when_failed:-exit} 1
    fi
}

make_venv() {
    [ -x "$venv/bin/python" ] && works "$venv/bin/python" && return
    python3 -m venv "$venv" && return
    echo "python3 -m venv failed: the system may keep it in a package, python3-venv"
    return 1
}
pip_install() { "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@"; }

# Presets of version 3 need cmake 3.21.
recent() {
    local version
    version=$("$1" --version 2>/dev/null | sed -n '1s/^cmake version //p')
    [ -n "$version" ] && [ "$(printf '3.21\n%s\n' "$version" | sort -V | head -n 1)" = 3.21 ]
}
# Sets cmake and ctest, and the generator: ninja when there is one or one can be had, else make.
find_cmake() {
    [ -z "${cmake:-}" ] || return 0
    if works ctest && recent cmake; then
        cmake=cmake ctest=ctest
    else
        if ! works "$venv/bin/cmake"; then
            step "fetch cmake into .venv" make_venv_with cmake
        fi
        cmake=$venv/bin/cmake ctest=$venv/bin/ctest
    fi
    if [ -z "${CMAKE_GENERATOR:-}" ]; then
        works ninja || works "$venv/bin/ninja" || { make_venv_with ninja >/dev/null 2>&1 || true; }
        works ninja || PATH=$PATH:$venv/bin
        works ninja && export CMAKE_GENERATOR=Ninja
    fi
}
make_venv_with() { make_venv && pip_install "$@"; }

build_commands() {
    # A cached generator wins over the environment; cmake refuses to change it.
    if [ -f "build/$1/CMakeCache.txt" ]; then
        local -x CMAKE_GENERATOR
        CMAKE_GENERATOR=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "build/$1/CMakeCache.txt")
    fi
    $cmake --preset "$1" && $cmake --build --preset "$1" -j "$jobs"
}
# The presets of another architecture run under qemu-user, which some tests must know.
test_commands() {
    case $1 in *-cross) export NC_EMULATED=1 ;; esac
    $ctest --test-dir "build/$1" -V
}

build() {
    find_cmake
    step "build $1" build_commands "$1"
}
c_tests() {
    build "$1"
    step "C tests, $1" test_commands "$1"
}
# The CUDA device without a GPU: stand-ins for NVIDIA's libraries (tests/cuda), kernel text compiled by the C++ compiler
# and kept in the build folder. All tests of CUDA as late as work can run, then most of them in other orders. With
# AddressSanitizer leaks are not searched for: the search would read device memory, which the host may not.
standin_tests() {
    ASAN_OPTIONS=detect_leaks=0 NACRE_CUDA_PATH=$PWD/build/$1/cuda NACRE_CACHE='' NACRE_STANDIN_SEED=$2 \
        "build/$1/nacre_tests" --jobs "$jobs" "${@:3}"
}
cuda_standins() {
    build "$1"
    if ! { works g++ || works clang++; }; then skip "CUDA on stand-ins" "no C++ compiler is installed"; return; fi
    step "CUDA tests on stand-ins (no GPU), $1" standin_tests "$1" 0 cuda device binding
    NACRE_CUDA_KEEP=0 step "CUDA tests on stand-ins (no GPU), order 1, the ends of blocks watched" \
        standin_tests "$1" 1 cuda_ _cuda cases_on_devices
    step "CUDA tests on stand-ins (no GPU), order 2" standin_tests "$1" 2 cuda_ _cuda cases_on_devices
}
quick() {
    c_tests release
    if works python3; then lint_tree; else skip "lint" "python3 is not installed"; fi
    summary
}

# The digits model, trained from scratch in a few seconds; then what it learned, on the test digits.
demo() {
    build release
    tools/demo/train_digits.sh build/release/nacre build/demo || exit 1
    build/release/examples/digits build/demo/digits.onnx examples/digits/digits.bin
}

lint_tree() { step "lint: the tree" python3 tools/lint/lint.py; }
lint() {
    step "lint: every rule catches its seeded violation" python3 tools/lint/lint.py --self-test
    lint_tree
}

format() {
    if works clang-format; then
        step "format what differs from HEAD" format_commands
    else
        skip "format" "clang-format is not installed"
    fi
}
format_commands() {
    { git diff --name-only --diff-filter=d HEAD; git ls-files --others --exclude-standard; } |
        grep -E '\.(c|h|inc)$' | xargs -r clang-format -i --style=file
}

# Pages that are made from the code.
docs() {
    build release
    step "Python packages of tests/requirements.txt into .venv" python_packages
    step "docs/operators.md" "$venv/bin/python" tools/docs/operators.py
    step "python/nacre/capi/operators.tsv" "$venv/bin/python" tools/docs/schemas.py
    step "docs/commands.md" "$venv/bin/python" tools/docs/commands.py
}

# as_root COMMAND...: fails where this user cannot be root without being asked.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
# system_packages PACKAGE...: in CI, as root, on a Debian system; elsewhere does nothing. What cannot be had is left
# out: the step that needs it says so.
system_packages() {
    local package
    [ "${CI:-}" = true ] && command -v apt-get >/dev/null && as_root true 2>/dev/null || return 1
    echo "==> install $*"
    export DEBIAN_FRONTEND=noninteractive
    if [ -z "${apt_is_fresh:-}" ]; then
        as_root apt-get update >/dev/null 2>&1
        apt_is_fresh=1
    fi
    as_root apt-get install -y "$@" >/dev/null 2>&1 && return
    for package in "$@"; do
        as_root apt-get install -y "$package" >/dev/null 2>&1 || echo "    not installed: $package"
    done
}
# Sets preset, gcc, qemu and packages for the architecture that this machine is not; fails where there is none.
other_tools() {
    case $(uname -m) in
    aarch64) preset=x86-64-cross gcc=x86_64-linux-gnu-gcc qemu=qemu-x86_64
             packages="gcc-x86-64-linux-gnu libc6-dev-amd64-cross qemu-user" ;;
    x86_64)  preset=aarch64-cross gcc=aarch64-linux-gnu-gcc qemu=qemu-aarch64
             packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" ;;
    *) return 1 ;;
    esac
}
# machine: what `make test` and `make nightly` use and a bare system lacks. Never fails.
machine() {
    local wanted=() preset gcc qemu packages
    works gcc || wanted+=(gcc libc6-dev)
    works g++ || wanted+=(g++)
    python3 -c 'import venv, ensurepip' 2>/dev/null || wanted+=(python3-venv)
    python3 -c 'import sysconfig, os; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
        wanted+=(python3-dev)
    works clang || wanted+=(clang)
    works clang-format || wanted+=(clang-format)
    has_libfuzzer || wanted+=(libclang-rt-dev)
    packs_relocations || wanted+=(lld-16)
    # shellcheck disable=SC2206
    if other_tools && ! { works $gcc && works $qemu; }; then wanted+=($packages); fi
    has_codecs || wanted+=(libjpeg-dev libpng-dev libwebp-dev libtiff-dev libopenjp2-7-dev)
    if [ ${#wanted[@]} -gt 0 ]; then system_packages "${wanted[@]}" || echo "    not installed here: ${wanted[*]}"; fi
    return 0
}
# As cmake/relr.cmake asks: GNU ld where it knows the form for this machine, or an lld that does.
packs_relocations() {
    compgen -c ld.lld- | grep -qE '^ld\.lld-(1[5-9]|2[0-9])$' && return
    ! printf 'int main(void) { return 0; }' |
        gcc -x c - -Wl,-z,pack-relative-relocs -o /dev/null 2>&1 | grep . >/dev/null
}
# The headers that libnacre_codecs.so, for ImageDecoder, is built with (cmake/codecs.cmake).
has_codecs() {
    local header folders
    folders=$(printf -- '-I%s ' /usr/include/openjpeg-2.*)
    for header in jpeglib.h png.h webp/decode.h tiffio.h openjpeg.h; do
        # shellcheck disable=SC2086
        printf '#include <stdio.h>\n#include <%s>\n' "$header" | gcc $folders -E - 2>/dev/null |
            grep "/$header\"" >/dev/null || return 1
    done
}
clang_tests() {
    works clang || system_packages clang
    if works clang; then c_tests clang; else skip "clang build and C tests" "clang is not installed"; fi
}
# emulated QEMU CPU ROOT PRESET PATTERN...
emulated() {
    local qemu=$1 cpu=$2 root=$3 preset=$4
    shift 4
    NC_EMULATED=1 "$qemu" -cpu "$cpu" -L "$root" "build/$preset/nacre_tests" --jobs "$jobs" --slowest "$@"
}
# Emulation is slow: the suite goes in parts, each with its line; the kernels are every_isa's.
emulated_parts="src/base,src/ir,src/onnx src/ops src/device,src/infer,src/transform
src/autodiff,src/train,src/api tests/"
# emulated_suite QEMU CPU ROOT PRESET
emulated_suite() {
    local part
    for part in $emulated_parts; do
        # shellcheck disable=SC2086
        step "C tests of $part, $4, $2" emulated "$1" "$2" "$3" "$4" ${part//,/ }
    done
}
# The processors whose instruction sets differ for our kernels: base, and each with more.
models_of() {
    case $1 in
    x86-64-cross) echo "qemu64 Haswell max" ;;
    *) echo "cortex-a53 cortex-a76 max" ;;
    esac
}
# every_isa: the kernels on each of those processors of the other architecture and, where qemu has it, of this one.
every_isa() {
    local cpu preset=$1 qemu=$2 root=$3
    for cpu in $(models_of "$preset"); do
        step "kernels and an MLP, $preset, $cpu" \
            emulated "$qemu" "$cpu" "$root" "$preset" src/kernels tests/skeleton/mlp
    done
}
# other_architecture [PATTERN...]: those C tests that match; without a pattern all of them, in parts, and the kernels on
# every processor model.
other_architecture() {
    local preset gcc qemu packages
    other_tools || { skip "the other architecture" "no cross preset for $(uname -m)"; return; }
    # shellcheck disable=SC2086
    { works $gcc && works $qemu; } || system_packages $packages
    if ! works $gcc; then skip "C tests, $preset" "$gcc is not installed"
    elif ! works $qemu; then skip "C tests, $preset" "$qemu is not installed"
    elif [ $# -gt 0 ]; then
        build $preset
        step "C tests of $*, $preset" emulated $qemu max "/usr/${gcc%-gcc}" $preset "$@"
    else
        build $preset
        every_isa $preset $qemu "/usr/${gcc%-gcc}"
        emulated_suite $qemu max "/usr/${gcc%-gcc}" $preset
    fi
}

# The copy of both lists inside .venv says what is installed there.
python_packages() {
    local all=tests/requirements.txt alone=tests/requirements_alone.txt
    cat $all $alone | cmp -s - "$venv/requirements.txt" && return
    make_venv && pip_install --no-compile -r $all && pip_install --no-compile --no-deps -r $alone && compile_packages &&
        cat $all $alone >"$venv/requirements.txt"
}
# By all cores, and without the thousands of modules that nobody imports here. Some are of newer Pythons and fail.
compile_packages() {
    "$venv/bin/python" -m compileall -q -j 0 -x 'transformers/models/|/tests?/' "$venv"/lib/python3*/site-packages ||
        true
}
python_tests() {
    if [ ! -d tests/py ]; then skip "Python tests" "there is no tests/py"; return; fi
    step "Python packages of tests/requirements.txt into .venv" python_packages
    # A file stays with one worker: what its fixtures made is made once.
    step "Python tests" "$venv/bin/python" -m pytest -q -n "$jobs" --dist loadfile tests/py
    step "ONNX's backend suite" "$venv/bin/python" -m pytest -q tests/conformance
    if ! { works g++ || works clang++; }; then skip "Python on stand-ins" "no C++ compiler is installed"; return; fi
    step "Python tests of devices on CUDA stand-ins (no GPU)" env NACRE_CUDA_PATH="$PWD/build/release/cuda" \
        NACRE_CACHE= "$venv/bin/python" -m pytest -q tests/py/test_binding.py tests/py/test_state.py
}

# sanitized_cases EVERY: every EVERY-th case of ONNX's backend suite through the command line built with ASan and UBSan.
sanitized_cases() {
    local folder=build/cases_$1 failed=0 n=0 case code
    "$venv/bin/python" tests/tools/write_cases.py "$folder" "$1" || return 1
    for case in "$folder"/*/; do
        n=$((n + 1))
        # The search for leaks takes seconds in each process; the fault sweep counts blocks instead.
        ASAN_OPTIONS=detect_leaks=0 build/asan/nacre check "$case/model.onnx" "$case/test_data_set_0" \
            >"$folder/log" 2>&1
        code=$?
        [ $code = 0 ] || [ $code = 3 ] && continue # 3: results differ; tolerances are the suite's own business
        echo "$case:" && cat "$folder/log"
        failed=$((failed + 1))
    done
    echo "$((n - failed)) passed, $failed failed"
    [ "$failed" = 0 ] && [ "$n" -gt 0 ]
}
sanitized_suite() {
    build asan
    step "Python packages of tests/requirements.txt into .venv" python_packages
    step "ONNX's backend suite, every $1th case, with sanitizers" sanitized_cases "$1"
}

# The packages that the suite needs; the cases that pass now are added to the list.
conformance() {
    build release
    step "Python packages of tests/requirements.txt into .venv" python_packages
    echo "==> ONNX's backend suite"
    "$venv/bin/python" tests/conformance/suite.py --update
}

# Of tests/requirements.txt only what is measured; in a .venv that has all of them nothing is fetched.
bench_packages() {
    cmp -s tests/requirements.txt "$venv/requirements.txt" && return
    "$venv/bin/python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null && return
    make_venv && grep -E '^(numpy|onnx|onnxruntime|protobuf)\b' tests/requirements.txt >"$venv/bench.txt" &&
        pip_install -r "$venv/bench.txt"
}
# Peers one by one, in an environment of their own: one that cannot be had is left out, and the tables say so.
bench_peers() {
    local line
    cmp -s bench/requirements.txt build/peers/requirements.txt && return
    [ -x build/peers/bin/python ] || python3 -m venv build/peers || return
    grep -v '^#' bench/requirements.txt | while read -r line; do
        build/peers/bin/python -m pip install -q --disable-pip-version-check "$line" || echo "not installed: $line"
    done
    cp bench/requirements.txt build/peers/
}
bench() {
    build release
    if [ ! -e build/release/python/nacre/_core.abi3.so ]; then
        echo "the Python extension was not built: the headers of python3 are missing (python3-dev)" >&2
        exit 1
    fi
    step "onnx and onnxruntime into .venv" bench_packages
    [ -n "${QUICK:-}" ] || step "openvino and MNN into build/peers" bench_peers
    "$venv/bin/python" bench/bench.py ${ACCEPT:+--accept} ${STRICT:+--strict} ${QUICK:+--quick} ${ONLY:+--only "$ONLY"}
}

wheel() {
    step "Python environment" make_venv
    step "wheel into build/wheel" "$venv/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps \
        -w build/wheel . ./python/as_onnxruntime
    ls build/wheel
}

everything() {
    c_tests release
    cuda_standins release
    lint
    c_tests asan
    clang_tests
    other_architecture src/kernels tests/skeleton/mlp
    sanitized_suite 20
    python_tests
    summary
}

# fuzz_commands TARGET CORPUS...: new inputs are collected in build/fuzz/corpus, a failing one is left in build/fuzz.
fuzz_commands() {
    local target=$1
    shift
    mkdir -p "build/fuzz/corpus/$target"
    "build/fuzz/fuzz_$target" -max_total_time="${FUZZ_SECONDS:-300}" -rss_limit_mb=3072 -timeout=20 -max_len=65536 \
        -artifact_prefix="build/fuzz/$target-" "build/fuzz/corpus/$target" "$@"
}
has_libfuzzer() {
    echo 'int LLVMFuzzerTestOneInput(const char *p, long n) { return p && n ? 0 : 0; }' |
        clang -fsanitize=fuzzer -x c - -o /dev/null >/dev/null 2>&1
}
fuzz() {
    if ! has_libfuzzer; then skip "fuzzing" "clang with libFuzzer is not installed"; return; fi
    build fuzz
    step "fuzz: ONNX bytes" fuzz_commands load tests/fuzz/onnx
    step "fuzz: the text form" fuzz_commands text tests/fuzz/text
    step "fuzz: up to a program" fuzz_commands plan tests/fuzz/plan tests/fuzz/text tests/fuzz/onnx
    step "fuzz: single nodes" fuzz_commands node tests/fuzz/node
    step "fuzz: checkpoints" fuzz_commands checkpoint tests/fuzz/checkpoint
}
summary() {
    if [ ${#not_run[@]} -gt 0 ]; then
        echo "==> passed; not run here:"
        printf '    %s\n' "${not_run[@]}"
    else
        echo "==> all passed"
    fi
}
# fault_commands: all models of ONNX's backend suite and the demo's, for FAULT_SECONDS at most.
fault_commands() {
    "$venv/bin/python" tests/tools/write_cases.py build/cases || return 1
    build/release/fault_sweep examples/digits/digits.onnx || return 1
    build/release/fault_sweep --seconds "${FAULT_SECONDS:-900}" build/cases
}
faults() {
    build release
    step "Python packages of tests/requirements.txt into .venv" python_packages
    step "every allocation fails: ONNX's backend suite, the digits" fault_commands
}
# write_nightly PART: what became of the last `make nightly` up to this part, for those who did not run it.
write_nightly() {
    local row commit state=clean
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
    git status --porcelain 2>/dev/null | grep -qv ' bench/nightly.md$' && state="with changes"
    {
        echo "# The last \`make nightly\`"
        echo
        echo "Written by it: $(date -u '+%Y-%m-%d %H:%M') UTC, commit $commit ($state), $(uname -m), $jobs cores," \
            "$SECONDS s$([ "$1" = other_architecture ] || echo ", going on or cut off behind $1")."
        echo
        echo "| step | result | seconds | what |"
        echo "|---|---|---|---|"
        printf '| %s |\n' "${done_steps[@]}"
        for row in "${not_run[@]}"; do echo "| ${row%%:*} | not run | |${row#*:} |"; done
    } >bench/nightly.md.new && mv bench/nightly.md.new bench/nightly.md
}
# random_graphs: GRAPHS of them from the seed behind those of `make test` on, in parts, each with its line.
random_graphs() {
    local from=${GRAPHS_FROM:-2000} to part
    to=$((from + ${GRAPHS:-100000}))
    build release
    step "Python packages of tests/requirements.txt into .venv" python_packages
    while [ "$from" -lt "$to" ]; do
        part=$((to - from < 5000 ? to - from : 5000))
        step "random graphs $from to $((from + part))" env NACRE_GRAPHS=$part NACRE_GRAPHS_FROM="$from" \
            "$venv/bin/python" -m pytest -q tests/py/test_random_graphs.py
        from=$((from + part))
    done
    build debug
    step "random graphs, every program and instance checked" env NACRE_LIB="$PWD/build/debug/libnacre.so" \
        "$venv/bin/python" -m pytest -q tests/py/test_random_graphs.py
}
# Large tensors one by one, for they take most of the memory; the others by all cores.
long_tests() {
    local large=(tests/nightly/test_large.py tests/nightly/test_large_training.py)
    step "large tensors, models of more than 2 GB" "$venv/bin/python" -m pytest -q "${large[@]}"
    step "torch's operators, transformers, estimators, every model as onnxruntime optimizes it" \
        env OMP_NUM_THREADS=1 "$venv/bin/python" -m pytest -q -n "$jobs" --dist worksteal tests/nightly \
        "${large[@]/#/--ignore=}"
}
# A failed step does not keep the others from running; the table is written behind each part, so that it tells of a run
# that was cut off too.
nightly() {
    local part
    when_failed=return
    for part in faults fuzz "c_tests tsan" "cuda_standins asan" "sanitized_suite ${SANITIZED_EVERY:-4}" random_graphs \
        long_tests other_architecture; do
        $part
        write_nightly "$part"
    done
    if printf '%s\n' "${done_steps[@]}" | grep -q '| FAILED |'; then
        echo "==> FAILED; see bench/nightly.md" >&2
        exit 1
    fi
    summary
}

case ${1:-} in
build | c_tests | cuda_standins) "$1" "${2:-release}" ;;
machine | quick | demo | lint | format | docs | wheel | conformance | bench) "$1" ;;
everything | fuzz | faults | nightly) "$1" ;;
other_architecture | sanitized_suite | random_graphs) "$@" ;;
*)
    echo "usage: steps.sh build|c_tests|cuda_standins [PRESET] | machine | quick | demo | lint | format | docs |" \
        "wheel | conformance | bench | everything | fuzz | faults | nightly | other_architecture [PATTERN...] |" \
        "sanitized_suite EVERY | random_graphs" >&2
    exit 2
    ;;
esac
