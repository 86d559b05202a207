#!/usr/bin/env python3
"""Checks what the compiler does not: the direction of includes, headers that compile alone, plain formatting, exported
symbols, a README per room, texts that point outside the tree, ops told apart by name; pages.py has the rules that
hold pages and code together, abi.py the one that keeps what programs were built against. Needs python3 alone, and gcc
(or $CC) for headers.

lint.py [ROOT]        prints one line per finding, path:line: rule: text, and exits 1 when there is any
lint.py --self-test   writes a small tree that breaks every rule and checks that each is caught
"""
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import abi
import pages

PUBLIC = "include/nacre"
BELOW_RUN = "base ir onnx device kernels ops infer transform autodiff plan"
# What each room may include besides itself. A room is the longest prefix found here; src/ is left out of its name.
# A test beside the code (*_test.c) may include all that its room reaches, directly or through others, and
# tests/check.h.
ROOMS = {
    "base": "",
    "ir": "base",
    "onnx": "base ir",
    "device": "base",
    "comm": "base",
    "kernels": "base",
    "kernels/cuda": "base device kernels",
    "ops": "base ir device kernels kernels/cuda",
    "infer": "base ir ops",
    "transform": "base ir ops",
    "autodiff": "base ir ops infer",
    "plan": "base ir ops device infer transform",
    "run": BELOW_RUN,
    "train": BELOW_RUN + " run",
    "dist": BELOW_RUN + " run train comm",
    "api": BELOW_RUN + " run train comm dist " + PUBLIC,
    "compat": PUBLIC,
    PUBLIC: "",
    "python": PUBLIC,
    "tools": PUBLIC,
    "bench": PUBLIC,
    "examples": PUBLIC,
    "codecs": "base",
    "tests/plugins": PUBLIC,
    "tests": BELOW_RUN + " kernels/cuda run train comm dist api " + PUBLIC,
}

C_LIKE = (".c", ".h", ".cu", ".cuh", ".list", ".inc", ".map")
CODE = C_LIKE + (".py", ".sh", ".cmake", "CMakeLists.txt", "CMakePresets.json", ".ci/run")
MAX_LINE = 120
MAX_README = 60
INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
# Split so that this file does not contain what it looks for.
OUTSIDE = re.compile(r"\.\./" r"shared\b|(?<![\w.-])/" r"work/")

# What turns names into cards and cards into names; elsewhere a card's name is only read for a message.
NAME_READERS = ("src/onnx/", "src/api/", "src/ir/text_", "src/ir/edit_node.c", "src/ops/registry.c",
                "src/ops/binding.c", "src/ops/build.c", "src/transform/pattern.c",
                "src/transform/rewrite.c", "src/plan/program_print.c", "src/run/profile.c")
CARD_NAME = re.compile(r"\bcard(?:->|\.)(?:name|domain)\b")
MESSAGE = re.compile(r"\b(?:NC_FAIL|nc_fail|FAIL_AT|nc_log|nc_diag_set|nc_text_addf?)\(|(?:->|\.)(?:at_op|op) = ")


class Tree:
    """The files under a root that belong to the project, and the findings about them."""

    def __init__(self, root):
        self.root = Path(root)
        self.findings = []
        self.files = sorted(f for f in self._names() if (self.root / f).is_file())
        self.texts = {f: text for f in self.files if (text := self._read(f)) is not None}

    def _names(self):
        git = ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        if (self.root / ".git").exists():
            listed = subprocess.run(git, capture_output=True, check=True).stdout.decode()
            return set(filter(None, listed.split("\0")))
        skipped = {".git", ".venv", "build", "__pycache__"}
        return {p.relative_to(self.root).as_posix() for p in self.root.rglob("*")
                if not skipped & set(p.relative_to(self.root).parts)}

    def _read(self, name):
        data = (self.root / name).read_bytes()
        return None if b"\0" in data[:8192] else data.decode("utf-8", "replace")

    def find(self, path, line, rule, text):
        self.findings.append(f"{path}:{line}: {rule}: {text}")


def room_of(path):
    path = path.removeprefix("src/")
    fitting = [r for r in ROOMS if path.startswith(r + "/")]
    return max(fitting, key=len, default=None)


def reach(room):
    """All rooms that a room sees, directly or through others."""
    seen, todo = set(), [room]
    while todo:
        r = todo.pop()
        if r not in seen:
            seen.add(r)
            todo += ROOMS[r].split()
    return seen


def target_of(tree, path, name):
    """The project file an include names, as a path from the root; None for a system header."""
    near = os.path.normpath(os.path.join(os.path.dirname(path), name))
    for candidate in (near, f"src/{name}", f"include/{name}", name):
        if candidate in tree.texts:
            return candidate
    if room_of(f"src/{name}"):
        return f"src/{name}"
    return f"include/{name}" if name.startswith("nacre/") else None


def check_includes(tree):
    for path, text in tree.texts.items():
        room = room_of(path)
        if not path.endswith(C_LIKE):
            continue
        if path.startswith("src/") and (room is None or not path.removeprefix("src/").startswith(room)):
            tree.find(path, 1, "room", "this folder of src/ is not in the table of tools/lint/lint.py")
            continue
        if room is None:
            continue
        is_test = path.startswith("src/") and path.endswith("_test.c")
        allowed = reach(room) if is_test else {room, *ROOMS[room].split()}
        for i, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            target = match and target_of(tree, path, match[1])
            if not target or (is_test and target.startswith("tests/")):
                continue
            if room_of(target) not in allowed:
                seen = ", ".join(sorted(allowed))
                tree.find(path, i, "include", f"{room} may not include {match[1]}; it sees {seen}")


def isa_rows(tree):
    rows = re.findall(r'^(?:ISA|PART)\((\w+), *(\w+), *"([^"]*)"', tree.texts.get("src/kernels/cpu/isa.list", ""), re.M)
    return {name: (arch, flags.split()) for name, arch, flags in rows}


def header_flags(path, isas):
    """Flags to compile a header alone; None when it is for another architecture. A header named after a row of isa.list
    is compiled as that row is, any other one below kernels/ as the portable row."""
    if not path.startswith("src/kernels/"):
        return []
    named = [isa for isa in isas if isa in re.split(r"[/_.]", path)]
    isa = named[0] if named else "portable"
    arch, flags = isas.get(isa, ("ANY", []))
    here = {"aarch64": "AARCH64", "arm64": "AARCH64", "x86_64": "X86_64"}.get(platform.machine(), "OTHER")
    return [f"-DNCK_ISA={isa}", f"-DNCK_ISA_{isa}=1", *flags] if arch in ("ANY", here) else None


def compiled(headers, path, command, root, seen={}):
    """Exit status and errors of a header compiled alone, among these headers: once for all trees that have the same."""
    key = headers, path, command
    if key not in seen:
        source = f'#include "{path}"\nextern int nc_lint_not_empty;\n'
        done = subprocess.run(command, input=source, cwd=root, text=True, capture_output=True)
        seen[key] = done.returncode, done.stderr
    return seen[key]


def check_headers(tree):
    cc, cxx = abi.compiler(), shlex.split(os.environ.get("CXX", "g++"))
    warnings = ["-Wall", "-Wextra", "-Wno-unused-function", "-Werror"]
    isas, jobs = isa_rows(tree), []
    for path in tree.texts:
        if not path.endswith(".h") or not path.startswith(("src/", "include/")):
            continue
        public = path.startswith("include/")
        dirs = ["-Iinclude"] if public else ["-Isrc", "-Iinclude"]
        flags = header_flags(path, isas)
        if flags is not None:
            jobs.append((path, [*cc, "-xc", "-std=gnu17", "-D_GNU_SOURCE", *warnings, *flags, *dirs]))
        if public and shutil.which(cxx[0]):
            jobs.append((path, [*cxx, "-xc++", "-std=c++17", "-pedantic", *warnings, *dirs]))

    headers = tuple((f, text) for f, text in tree.texts.items() if f.endswith(".h"))

    def compile_alone(job):
        path, command = job
        code, errors = compiled(headers, path, (*command, "-fsyntax-only", "-I.", "-"), tree.root)
        return path, command[0], code, errors

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for path, compiler, code, errors in pool.map(compile_alone, jobs):
            if code:
                first = re.search(r"(?:[^\s:]+:(\d+):\d+: )?(?:fatal )?error: .*", errors)
                line, text = (first[1] or 1, first[0]) if first else (1, errors.strip())
                tree.find(path, line, "header", f"does not compile alone with {compiler}: {text}")


def check_format(tree):
    for path, text in tree.texts.items():
        code = path.endswith(CODE)
        if not (code or path.endswith(".md") or path == "Makefile"):
            continue
        for i, line in enumerate(text.split("\n"), 1):
            if code and "\t" in line:
                tree.find(path, i, "tab", "indent with 4 spaces")
            if line != line.rstrip():
                tree.find(path, i, "blank", "blanks at the end of the line")
            if code and len(line) > MAX_LINE:
                tree.find(path, i, "long", f"{len(line)} characters, at most {MAX_LINE}")
        if text and not text.endswith("\n"):
            tree.find(path, text.count("\n") + 1, "newline", "the file does not end with a newline")
        if path.endswith((".c", ".h", ".cu", ".cuh")) and not text.startswith(("/*", "//")):
            tree.find(path, 1, "head", "the file starts without a comment that says what it does")


def check_exports(tree):
    library = tree.root / "build/release/libnacre.so"
    if not library.exists() or not shutil.which("nm"):
        return
    command = ["nm", "-D", "--defined-only", "-P", str(library)]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        name = line.split()[0].split("@")[0]
        if not name.startswith("nacre_"):
            tree.find("build/release/libnacre.so", 1, "export", f"exports {name}; only nacre_* is public")


def check_readmes(tree):
    for room in sorted({f.split("/")[1] for f in tree.files if f.count("/") > 1 and f.startswith("src/")}):
        readme = f"src/{room}/README.md"
        lines = len(tree.texts.get(readme, "").splitlines())
        if lines == 0:
            tree.find(readme, 1, "readme", "every folder of src/ says what it is for")
        elif lines > MAX_README:
            tree.find(readme, MAX_README + 1, "readme", f"{lines} lines, at most {MAX_README}: one screen")


def check_outside(tree):
    for path, text in tree.texts.items():
        for i, line in enumerate(text.splitlines(), 1):
            if OUTSIDE.search(line):
                tree.find(path, i, "outside", "mentions a path that is not part of the project")


def statements(text):
    """C text cut at semicolons and braces, each piece with the line that it starts on."""
    line = 1
    for piece in re.split(r"[;{}]", text):
        yield line + len(piece[:len(piece) - len(piece.lstrip())].split("\n")) - 1, piece
        line += piece.count("\n")


def check_names(tree):
    for path, text in tree.texts.items():
        if not path.startswith("src/") or not path.endswith((".c", ".h")) or path.endswith("_test.c"):
            continue
        if path.startswith(NAME_READERS):
            continue
        for line, piece in statements(text):
            if CARD_NAME.search(piece) and not MESSAGE.search(piece):
                tree.find(path, line, "card", "tells ops apart by a card's name, not by traits or an own")


CHECKS = (check_includes, check_headers, check_format, check_exports, check_readmes, check_outside, check_names,
          *pages.CHECKS, *abi.CHECKS)


def lint(root):
    tree = Tree(root)
    for check in CHECKS:
        check(tree)
    return tree.findings


# The self-test: a tree that is right, and one violation at a time laid over it. Each names the finding it must cause;
# nothing else may be found.
GOOD = {
    "include/nacre/nacre.h": '/* Public: "level". */\n#include <stddef.h>\n/* 1 */\nint nacre_version(void);\n',
    "src/base/README.md": "# base: `mem.h`; not there yet: a, low, open\n",
    "src/base/mem.h": "/* Memory. */\n#include <stddef.h>\nvoid *nc_alloc(size_t n);\n",
    "src/ir/README.md": "# ir: `graph.h`\n",
    "src/ir/graph.c": '/* Graphs. */\n#include "base/mem.h"\n#include "ir/graph.h"\n'
                      'int says(void) {\n    NC_FAIL(w, 1, "%s",\n            n->card->name);\n}\n',
    "src/ir/graph.h": "/* Graphs. */\ntypedef struct nc_graph nc_graph;\n",
    "src/kernels/README.md": "# kernels: `k.h`, `cpu/`\n",
    "src/kernels/cpu/isa.list": '/* ISA */\nISA(portable, ANY, "")\nISA(odd, NOWHERE, "-mno-such-flag")\n',
    "src/kernels/cpu/simd/odd.h": "/* For a machine that does not exist. */\n#include <no_such_header.h>\n",
    "src/plan/README.md": "# plan: p\n",
    "src/plan/plan_test.c": '/* Tests. */\n#include "kernels/k.h"\n#include "tests/check.h"\n',
    "src/kernels/k.h": "/* Kernels. */\n#ifndef NCK_ISA_portable\n#error row\n#endif\nvoid nck_k(void);\n",
    "tests/check.h": "/* Checks. */\n",
    "tools/nacre/main.c": '/* Tool. */\n#include "nacre/nacre.h"\n',
    **pages.GOOD,
    **abi.GOOD,
}
BAD = [
    ("src/base/low.c", '/* Low. */\n#include "ir/graph.h"\n', "src/base/low.c:2: include:"),
    ("src/base/low.c", '/* Low. */\n#include "../ir/graph.h"\n', "src/base/low.c:2: include:"),
    ("src/base/low.c", "/* Low. */\n#  include <ir/graph.h>\n", "src/base/low.c:2: include:"),
    ("src/base/low.c", '/* Low. */\n#include "nacre/nacre.h"\n', "src/base/low.c:2: include:"),
    ("src/base/low.c", '/* Low. */\n#include "tests/check.h"\n', "src/base/low.c:2: include:"),
    ("src/base/low_test.c", '/* Low. */\n#include "ir/graph.h"\n', "src/base/low_test.c:2: include:"),
    ("src/kernels/cpu/k.simd.c", '/* K. */\n#include "ir/graph.h"\n', "src/kernels/cpu/k.simd.c:2: include:"),
    ("src/kernels/cpu/k.c", '/* K. */\n#include "device/device.h"\n', "src/kernels/cpu/k.c:2: include:"),
    ("src/plan/p.c", '/* P. */\n#include "kernels/k.h"\n', "src/plan/p.c:2: include:"),
    ("tools/nacre/run.c", '/* Run. */\n#include "base/mem.h"\n', "tools/nacre/run.c:2: include:"),
    ("tests/plugins/op.c", '/* Op. */\n#include "base/mem.h"\n', "tests/plugins/op.c:2: include:"),
    ("src/stray.c", "/* In no room. */\n", "src/stray.c:1: room:"),
    ("src/base/open.h", "/* Open. */\nvoid nc_open(size_t n);\n", "src/base/open.h:2: header:"),
    ("include/nacre/cxx.h", "/* C only. */\nint nacre_new(int new);\n", "include/nacre/cxx.h:2: header:"),
    ("src/base/a.c", "/* A. */\nint a(void) {\n\treturn 1;\n}\n", "src/base/a.c:3: tab:"),
    ("src/base/a.c", "/* A. */ \n", "src/base/a.c:1: blank:"),
    ("docs/x.md", "# A \n", "docs/x.md:1: blank:"),
    ("src/base/a.c", f"/* {'a' * MAX_LINE} */\n", "src/base/a.c:1: long:"),
    ("src/base/a.c", "/* A. */\nint a;", "src/base/a.c:2: newline:"),
    ("src/base/a.c", "int a;\n", "src/base/a.c:1: head:"),
    ("src/comm/mpi.c", "/* No README. */\n", "src/comm/README.md:1: readme:"),
    ("src/ir/README.md", "graph\n" * (MAX_README + 1), f"src/ir/README.md:{MAX_README + 1}: readme:"),
    ("docs/a.txt", "see .." + "/shared/notes\n", "docs/a.txt:1: outside:"),
    ("docs/a.txt", "\nin /" + "work/main\n", "docs/a.txt:2: outside:"),
    ("src/plan/p.c", "/* P. */\nint p(void) {\n    return n->card->name[0] == 'Q';\n}\n", "src/plan/p.c:3: card:"),
    ("src/plan/p.c", "/* P. */\nint p(void) {\n    w->at_op = n->card->name;\n    return card->domain != NULL;\n}\n",
     "src/plan/p.c:4: card:"),
    *pages.BAD,
    *abi.BAD,
]
EXPORT = ("int nacre_a(void);int stray_b(void);int nacre_a(void){return 1;}int stray_b(void){return 2;}",
          "build/release/libnacre.so:1: export: exports stray_b")


def write_tree(root, files):
    for name, text in files.items():
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def findings_of(files, library=None):
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, files)
        if library:
            Path(root, "build/release").mkdir(parents=True)
            cc = abi.compiler()
            command = [*cc, "-shared", "-fPIC", "-xc", "-", "-o", "build/release/libnacre.so"]
            subprocess.run(command, input=library, text=True, cwd=root, check=True)
        return lint(root)


def self_test():
    wrong = []
    if found := findings_of(GOOD):
        wrong.append(("a tree without violations", "nothing", found))
    for name, text, expected in BAD:
        if expected.endswith("header:") and name.startswith("include/") and not shutil.which("g++"):
            continue
        found = findings_of({**GOOD, name: text})
        if len(found) != 1 or not found[0].startswith(expected):
            wrong.append((name, expected, found))
    found = findings_of(GOOD, EXPORT[0])
    if len(found) != 1 or not found[0].startswith(EXPORT[1]):
        wrong.append(("libnacre.so", EXPORT[1], found))
    for name, expected, found in wrong:
        print(f"self-test: {name}: expected {expected}, found {found}")
    print(f"{len(BAD) + 2 - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[2]
    findings = lint(root)
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
