"""The rules of lint.py about tables and pages that must agree with the code: files that pages name, the map of the
tree, public functions, options of the command line and of sessions, variables of the environment, targets of make,
tolerances. Each rule is a function of the tree; GOOD and BAD are what lint.py --self-test adds to its own."""
import fnmatch
import re

FILE_NAME = re.compile(r"`([\w./*<>{},-]+(?:\.(?:c|h|cu|cuh|list|py|inc|md|sh|txt|onnx|bin)|/))`")
# Pages whose names may lie anywhere in the tree; a README speaks of its own folder, then of the tree.
ROADMAP = ("ROADMAP.md", "docs/features.md")


def folders_of(tree):
    return {"/".join(f.split("/")[:n]) + "/" for f in tree.files for n in range(1, f.count("/") + 1)}


def check_named_files(tree):
    paths = ["/" + p for p in [*tree.files, *folders_of(tree)]]
    for page, text in tree.texts.items():
        if not page.endswith(".md") or page in ROADMAP:
            continue
        for i, line in enumerate(text.splitlines(), 1):
            for name in FILE_NAME.findall(line):
                wanted = re.sub(r"^(\.\./)+", "", name)
                if re.search(r"[<>{},]", name) or wanted.startswith(("build/", ".venv/", "/")):
                    continue
                if not any(p.endswith("/" + wanted) or fnmatch.fnmatch(p, "*/" + wanted) for p in paths):
                    tree.find(page, i, "name", f"no file or folder {name}")


def check_complete(tree):
    """A README in src/ names the files of its folder, by name or stem, and the folders in it."""
    for page, text in tree.texts.items():
        folder = page.removesuffix("README.md")
        if not (page.startswith("src/") and page.endswith("README.md")):
            continue
        names = [f.removeprefix(folder) for f in tree.files if f.startswith(folder) and f != page]
        stems = {re.sub(r"(\.simd)?\.\w+$", "", n) for n in names if "/" not in n and not n.endswith("_test.c")}
        for word in sorted(stems | {n.split("/")[0] + "/" for n in names if "/" in n}):
            if not re.search(rf"(?<!\w){re.escape(word)}" + ("" if word.endswith("/") else r"(?!\w)"), text):
                tree.find(page, 1, "unnamed", f"does not tell of {word}")


def check_limits(tree):
    """The numbers of src/onnx/limits.h stand in SECURITY.md."""
    path, page = "src/onnx/limits.h", tree.texts.get("SECURITY.md", "")
    for match in re.finditer(r"^#define NC_ONNX_(\w+) (.*?)(?: */\*.*)?$", tree.texts.get(path, ""), re.M):
        value = re.sub(r"\(size_t\)", "", match[2])
        if not re.fullmatch(r"[\d<()\s-]+", value):
            continue
        number = eval(value)  # digits, shifts and brackets alone
        shown = [f"{number:,}", f"{number >> 20} MiB", f"{(number + 1) >> 30} GiB"]
        if not any(re.search(rf"(?<![\d,]){s}(?!\d|,\d)", page) for s in shown):
            line = tree.texts[path][:match.start()].count("\n") + 1
            tree.find(path, line, "limit", f"SECURITY.md does not tell of {match[1]} {shown[0]}")


def check_map(tree):
    """The block "The house" of ARCHITECTURE.md names every folder of src/, and none that is not there, but planned."""
    page = "ARCHITECTURE.md"
    block = re.search(r"^src/\n((?:  .*\n)+)", tree.texts.get(page, ""), re.M)
    if not block:
        return
    first = tree.texts[page][:block.start(1)].count("\n") + 1
    there, named, room = folders_of(tree), set(), ""
    for i, line in enumerate(block[1].splitlines(), first):
        match = re.match(r"(  |    )([\w/]+)/(?: +(.*))?$", line)
        if not match:
            continue
        room = match[2] if len(match[1]) == 2 else room
        folder = f"src/{match[2]}/" if len(match[1]) == 2 else f"src/{room}/{match[2]}/"
        named.add(folder)
        if folder not in there and "planned" not in (match[3] or ""):
            tree.find(page, i, "map", f"{folder} is not there and not called planned")
    for folder in sorted(f for f in there if f.startswith("src/") and f.count("/") == 2):
        if not any(n.startswith(folder) for n in named):
            tree.find(page, first, "map", f"{folder} is not on the map")


def check_public(tree):
    """A declaration has a comment of its own, or stands without a blank line below one. Sections are no comments."""
    for path, text in tree.texts.items():
        if not (path.startswith("include/nacre/") and path.endswith(".h")):
            continue
        covered, lines = False, text.splitlines()
        for i, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("/* ----"):
                covered = False
            elif line.startswith("/*"):
                covered = True
            elif match := re.match(r"(?:NACRE_API .*?|[\w ]+\*?)\b(nacre_\w+)\(", line):
                end = i
                while ";" not in lines[end - 1] and end < len(lines):
                    end += 1
                own = "/*" in "".join(lines[i - 1:end])
                if not (covered or own or match[1].endswith("_release")):
                    tree.find(path, i, "public", f"{match[1]} has no comment")


def help_of(tree, text):
    """The help text of a command: its string, and the macros of cli.h that it is joined with."""
    match = re.search(r"static const char help\[\] =(.*?);\n", text, re.S)
    shared = tree.texts.get("tools/nacre/cli.h", "")
    out = match[1] if match else ""
    for macro in re.findall(r"\b[A-Z]+_HELP\b", out):
        defined = re.search(rf"#define {macro}\b(.*?)(?:\n\n|\n[^ ])", shared.replace("\\\n", " \\ "), re.S)
        out += defined[1] if defined else ""
    return match and out


def options_of(text, macros):
    """Options in a table of arguments, those of the macros of cli.h that it uses among them."""
    names = re.findall(r'\{\s*"(--[\w-]+)", ARG_', text)
    for macro in re.findall(r"\b[A-Z]+_ARGS\b", text):
        names += options_of(macros.get(macro, ""), macros)
    return names


def check_commands(tree):
    shared = tree.texts.get("tools/nacre/cli.h", "").replace("\\\n", " ")
    macros = dict(re.findall(r"^#define ([A-Z]+_ARGS)\(c\)(.*)$", shared, re.M))
    page = tree.texts.get("docs/commands.md")
    for path, text in tree.texts.items():
        if not (path.startswith("tools/nacre/") and path.endswith(".c")) or (taught := help_of(tree, text)) is None:
            continue
        for name in options_of(text, macros):
            line = text[:text.find(f'"{name}"')].count("\n") + 1 if f'"{name}"' in text else 1
            if not re.search(rf"(?<![\w-]){name}(?![\w-])", taught):
                tree.find(path, line, "help", f"--help does not tell of {name}")
            if page is not None and name not in page:
                tree.find(path, line, "docs", f"docs/commands.md does not tell of {name}: make docs")


def check_options(tree):
    path, header = "src/api/options.c", tree.texts.get("include/nacre/nacre.h", "")
    text = tree.texts.get(path, "")
    table = re.search(r"keys\[\] = \{(.*?)\};", text, re.S)
    for key in re.findall(r'\{"(\w+)",', table[1]) if table else []:
        if f'"{key}"' not in header:
            line = text[:table.start()].count("\n") + 1
            tree.find(path, line, "option", f"include/nacre/nacre.h does not tell of the session option {key}")


def check_environment(tree):
    pages = "".join(t for p, t in tree.texts.items() if p.endswith(".md"))
    for path, text in tree.texts.items():
        if not path.endswith(".c") or not path.startswith(("src/", "tools/")) or path.endswith("_test.c"):
            continue
        for match in re.finditer(r'getenv\("(NACRE_\w+)"\)', text):
            if match[1] not in pages:
                tree.find(path, text[:match.start()].count("\n") + 1, "environment", f"no page tells of {match[1]}")


def check_make(tree):
    rules = re.search(r"^\.PHONY:(.*)$", tree.texts.get("Makefile", ""), re.M)
    if not rules:
        return
    targets = set(rules[1].split())
    readme = tree.texts.get("README.md", "")
    for target in sorted(targets - {"all"} - set(re.findall(r"`make (\w+)`", readme))):
        tree.find("README.md", 1, "make", f"does not tell of `make {target}`")
    for page, text in tree.texts.items():
        for i, line in enumerate(text.splitlines() if page.endswith(".md") and page not in ROADMAP else [], 1):
            for target in re.findall(r"`make (\w+)`", line):
                if target not in targets:
                    tree.find(page, i, "make", f"the Makefile has no target {target}")


# ---- tolerances ----

LIST, NUMERICS = "tests/tolerances.list", "docs/numerics.md"
ROW = re.compile(r'^TOL\((\w+), *([^,]+), *([^,]+), *"([^"]*)"\)$', re.M)
SMALL = r"(?:\d+(?:\.\d*)?e-\d+|0?\.\d+|0x[\d.]+p-\d+)"
OWN_C = re.compile(rf"CHECK_NEAR\(.*,[^,]*\b{SMALL}[^,]*\);|fabsf?\([^)]* - [^)]*\) *<=? *{SMALL}\b")
OWN_PYTHON = re.compile(rf"\b(?:rtol|atol|rel|abs|rel_tol|abs_tol)={SMALL}")


def is_test(path):
    return path.endswith(("_test.c", "testing.h")) or (path.startswith("tests/") and path.endswith((".py", ".c", ".h")))


def check_tolerances(tree):
    tests = {p: t for p, t in tree.texts.items() if is_test(p)}
    for path, text in tests.items():
        for i, line in enumerate(text.splitlines(), 1):
            if (OWN_PYTHON if path.endswith(".py") else OWN_C).search(line):
                tree.find(path, i, "tolerance", f"takes no row of {LIST}")
    listed = tree.texts.get(LIST, "")
    rows = [f"| {' | '.join(row)} |" for row in ROW.findall(listed)]
    shown = re.findall(r"^\| \w+ \| [^|]+ \| [^|]+ \| [^|]+ \|$",
                       tree.texts.get(NUMERICS, "").partition("## Tolerances")[2], re.M)
    shown = [row for row in shown if not row.startswith("| row |")]
    for row in [r for r in rows if r not in shown] + [r for r in shown if r not in rows]:
        tree.find(NUMERICS, 1, "table", f"{LIST} and the page differ in {row}")
    used = set(re.findall(r"\bnc_tol_(\w+)|[\"'](\w+)[\"']", "".join(tests.values())))
    used = {name for pair in used for name in pair}
    for match in ROW.finditer(listed):
        if match[1] not in used:
            tree.find(LIST, listed[:match.start()].count("\n") + 1, "unused", f"no test uses {match[1]}")


CHECKS = (check_named_files, check_complete, check_limits, check_map, check_public, check_commands, check_options,
          check_environment, check_make, check_tolerances)

GOOD = {
    "ARCHITECTURE.md": "# Design\n```\nsrc/\n  base/   ground\n  ir/   graph\n  comm/   planned: collectives\n"
                       "  kernels/\n    cpu/   kernels\n  onnx/   files\n  plan/   programs\n  api/   the face\n```\n",
    "SECURITY.md": "depth 64, 256 MiB, 2 GiB\n",
    "src/onnx/README.md": "# onnx: `limits.h`\n",
    "src/onnx/limits.h": "/* L */\n#define NC_ONNX_MAX_DEPTH 64 /* deep */\n"
                         "#define NC_ONNX_MAX_BYTES ((size_t)1 << 28)\n"
                         "#define NC_ONNX_MAX_FILE (((size_t)1 << 31) - 1)\n",
    "README.md": "# It\n`make test` and `tests/tolerances.list`\n",
    "Makefile": ".PHONY: all test\ntest: ; true\n",
    "docs/numerics.md": "# N\n## Tolerances\n| row | relative | absolute | what |\n|---|---|---|---|\n"
                        "| k | 1e-6 | 0 | why |\n",
    "docs/commands.md": "`--loud` `--dim`\n",
    "tests/tolerances.list": '/* T */\nTOL(k, 1e-6, 0, "why")\n',
    "tests/k_test.c": "/* T */\nint t(void) { return CHECK_CLOSE(a, b, nc_tol_k); }\n",
    "tools/nacre/cli.h": '/* C */\n#define COMMON_ARGS(c) {"--dim", ARG_LIST, 0}\n'
                         '#define COMMON_HELP "  --dim N   a size\\n"\n\n',
    "tools/nacre/say.c": '/* S */\nstatic const char help[] =\n    "  --loud   more\\n" COMMON_HELP;\n'
                         'arg known[] = {{"--loud", ARG_FLAG, 0}, COMMON_ARGS(c)};\n',
    "src/api/README.md": "# api: `options.c`\n",
    "src/api/options.c": '/* O */\nstatic struct k keys[] = {{"level", f}};\nchar *t = getenv("NACRE_LOUD");\n',
    "docs/a.md": "# A\n`NACRE_LOUD`\n",
}
BAD = [
    ("docs/b.md", "see `src/ir/nothing.c`\n", "docs/b.md:1: name:"),
    ("src/ir/README.md", "# ir\n`graph.h` `gone.h`\n", "src/ir/README.md:2: name:"),
    ("docs/b.md", "see `src/nowhere/`\n", "docs/b.md:1: name:"),
    ("docs/b.md", "see `none_*.c`\n", "docs/b.md:1: name:"),
    ("src/ir/README.md", "# ir\n", "src/ir/README.md:1: unnamed:"),
    ("src/kernels/README.md", "# kernels: `k.h`\n", "src/kernels/README.md:1: unnamed:"),
    ("src/onnx/limits.h", "/* L */\n#define NC_ONNX_MAX_DEPTH 65\n", "src/onnx/limits.h:2: limit:"),
    ("src/onnx/limits.h", "/* L */\n#define NC_ONNX_MAX_BYTES ((size_t)1 << 29)\n", "src/onnx/limits.h:2: limit:"),
    ("ARCHITECTURE.md", GOOD["ARCHITECTURE.md"].replace("planned: ", ""), "ARCHITECTURE.md:6: map:"),
    ("ARCHITECTURE.md", GOOD["ARCHITECTURE.md"].replace("  ir/   graph\n", ""), "ARCHITECTURE.md:4: map:"),
    ("include/nacre/more.h", "/* M. */\n\nint nacre_more(void);\n", "include/nacre/more.h:3: public:"),
    ("include/nacre/more.h", "/* M. */\n/* ---- section ---- */\nint nacre_more(void);\n",
     "include/nacre/more.h:3: public:"),
    ("tools/nacre/say.c", GOOD["tools/nacre/say.c"].replace("{{", '{{"--lou", ARG_FLAG, 0}, {'),
     "tools/nacre/say.c:4: help:"),
    ("tools/nacre/say.c", GOOD["tools/nacre/say.c"].replace(" COMMON_HELP", ""), "tools/nacre/say.c:1: help:"),
    ("docs/commands.md", "`--dim`\n", "tools/nacre/say.c:4: docs:"),
    ("src/api/options.c", GOOD["src/api/options.c"].replace('{"level", f}', '{"level", f}, {"speed", f}'),
     "src/api/options.c:2: option:"),
    ("docs/a.md", "# A\n", "src/api/options.c:3: environment:"),
    ("README.md", "# It\n", "README.md:1: make:"),
    ("docs/b.md", "`make gold`\n", "docs/b.md:1: make:"),
    ("docs/numerics.md", GOOD["docs/numerics.md"] + "| l | 1e-6 | 0 | why |\n", "docs/numerics.md:1: table:"),
    ("src/ir/a_test.c", "/* A */\nCHECK_NEAR(a, b, 1e-5);\n", "src/ir/a_test.c:2: tolerance:"),
    ("src/ir/a_test.c", "/* A */\nCHECK(fabs(a - b) < 1e-5);\n", "src/ir/a_test.c:2: tolerance:"),
    ("tests/py/test_a.py", "close(a, b, rtol=1e-5)\n", "tests/py/test_a.py:1: tolerance:"),
    ("tests/k_test.c", "/* T */\n", "tests/tolerances.list:2: unused:"),
]
