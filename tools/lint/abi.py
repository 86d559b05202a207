"""The rule that what programs and plugins were built against keeps its shape: functions, enums, structs and versions
of include/nacre are compared with the description abi.txt, which is committed. Nothing in it may go or change; an enum
may get new constants, a struct new fields at its end, if its first field is its size. What is new must be described.

abi.py --write    adds what is new to abi.txt; refuses when something in it was broken
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

LIST = "tools/lint/abi.txt"
#: Has a size, but lies in memory of callers that do not tell it.
FROZEN = {"nacre_op_tensor"}


def compiler():
    return shlex.split(os.environ.get("CC", "gcc" if shutil.which("gcc") else "cc"))


def plain(text):
    """Without comments, directives and the words for C++."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#.*(?:\\\n.*)*$", "", text, flags=re.M)
    return text.replace('extern "C" {', "")


def squeeze(text):
    return re.sub(r" ?([*(),]) ?", r"\1", re.sub(r"\s+", " ", text)).strip()


def parts(text, separator):
    """Cut at separators that are in no bracket."""
    found, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "([{"
        depth -= c in ")]}"
        if c == separator and depth == 0:
            found.append(text[begin:i])
            begin = i + 1
    return [p.strip() for p in [*found, text[begin:]] if p.strip()]


def without_name(parameter):
    """The type of a parameter. What it is called is nobody's business but the header's."""
    if "(" in parameter or parameter in ("void", "..."):
        return squeeze(parameter)
    return squeeze(re.sub(r"([\s*])\w+((?:\[[^\]]*\])*)$", r"\1\2", parameter))


def functions_of(text):
    for match in re.finditer(r"NACRE_API\s+([^;{]+?)\b(nacre_\w+)\s*\(([^;]*)\)\s*;", text):
        types = ",".join(without_name(p) for p in parts(match[3], ","))
        yield match[2], f"{squeeze(match[1])}({types})"


def enums_of(text):
    for match in re.finditer(r"typedef enum \w+ \{([^}]*)\}\s*(\w+);", text):
        value, constants = -1, []
        for item in parts(match[1], ","):
            name, _, given = (x.strip() for x in item.partition("="))
            value = int(given, 0) if given else value + 1
            constants.append((name, str(value)))
        yield match[2], constants


def fields_of(body):
    """(name, type) of every field, also where one declaration has several."""
    for declaration in parts(body, ";"):
        pointer = re.search(r"\(\*(\w+)\)", declaration)
        if pointer:
            yield pointer[1], squeeze(declaration.replace(pointer[1], "", 1))
            continue
        first, *more = parts(declaration, ",")
        base, stars, name, dims = re.fullmatch(r"(.*?[\w\s])(\**)(\w+)((?:\[\w+\])*)", squeeze(first)).groups()
        yield name, squeeze(base + stars) + dims
        for other in more:
            stars, name, dims = re.fullmatch(r"(\**)(\w+)((?:\[\w+\])*)", squeeze(other)).groups()
            yield name, squeeze(base + stars) + dims


def structs_of(text):
    for match in re.finditer(r"typedef struct \w+ \{(.*?)^\}\s*(\w+);", text, re.S | re.M):
        yield match[2], list(fields_of(match[1]))


def offsets_of(root, headers, structs):
    """{struct: [offset of each field]}, from a compiled program: what the compiler makes of it is what counts."""
    lines = [f'#include "{h}"' for h in headers] + ["#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    for name, fields in structs.items():
        lines += [f'printf("%zu ", offsetof({name}, {f}));' for f, _ in fields] + ['printf("\\n");']
    source = "\n".join([*lines, "return 0; }", ""])
    program = Path(root, "build", f"abi-{os.getpid()}")
    program.parent.mkdir(exist_ok=True)
    command = [*compiler(), "-xc", "-", "-Iinclude", "-o", str(program)]
    try:
        subprocess.run(command, input=source, text=True, cwd=root, check=True, capture_output=True)
        printed = subprocess.run([str(program)], text=True, capture_output=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None  # the rule about headers tells why it does not compile
    finally:
        program.unlink(missing_ok=True)
    return dict(zip(structs, (row.split() for row in printed)))


def describe(root, texts, seen={}):
    """The lines of a description of the public headers: kind, name, what it is. None: they do not compile."""
    headers = sorted(t for t in texts if t.startswith("include/nacre/") and t.endswith(".h"))
    key = tuple((h, texts[h]) for h in headers)
    if key not in seen:
        seen[key] = describe_anew(root, headers, texts)
    return seen[key]


def describe_anew(root, headers, texts):
    lines, structs = [], {}
    for header in headers:
        text = plain(texts[header])
        versions = re.findall(r"^#define (NACRE_\w+_VERSION) (\d+)$", texts[header], re.M)
        lines += [f"version {name} {number}" for name, number in versions]
        lines += [f"function {name} {signature}" for name, signature in functions_of(text)]
        lines += [f"constant {name}.{c} {v}" for name, constants in enums_of(text) for c, v in constants]
        structs.update(structs_of(text))
    offsets = offsets_of(root, [h.removeprefix("include/") for h in headers], structs) if structs else {}
    if offsets is None:
        return None
    for name, fields in structs.items():
        lines += [f"field {name}.{field} {at} {kind}" for (field, kind), at in zip(fields, offsets[name])]
    return lines


def split(line):
    kind, name, what = line.split(" ", 2)
    return (kind, name), what


def broken(old, new):
    """(what, why) of everything described that is not so any more, and of fields that may not be added."""
    now, was = dict(map(split, new)), dict(map(split, old))
    for (kind, name), what in was.items():
        if kind == "version":
            if int(now.get((kind, name), "0")) < int(what):
                yield name, f"it was {what} and may only grow"
        elif (kind, name) not in now:
            yield name, f"the {kind} is gone"
        elif now[kind, name] != what:
            yield name, f"the {kind} was '{what}', now it is '{now[kind, name]}'"
    sized = {name.removesuffix(".size") for kind, name in was if kind == "field" and name.endswith(".size")}
    known = {name.split(".")[0] for kind, name in was if kind == "field"}
    for kind, name in now:
        struct = name.split(".")[0]
        if kind == "field" and (kind, name) not in was and struct in known and struct not in sized - FROZEN:
            yield name, "programs hold this struct and do not tell its size: it may not grow"


def check_abi(tree):
    if LIST not in tree.texts:
        return
    new, old = describe(tree.root, tree.texts), tree.texts[LIST].splitlines()
    if new is None:
        return
    wrong = list(broken(old, new))
    for name, why in wrong:
        tree.find(LIST, 1, "abi", f"{name}: {why}")
    for line in sorted(set(new) - set(old)) if not wrong else ():
        tree.find(LIST, 1, "abi", f"{split(line)[0][1]} is not described: run python3 tools/lint/abi.py --write")


CHECKS = (check_abi,)
_HEADER = """/* Public. */
#ifndef ABI
#define ABI
#include <stddef.h>
#define NACRE_API
#define NACRE_X_VERSION 2
typedef enum nacre_e { NACRE_E_A, NACRE_E_B = 4 } nacre_e;
typedef struct nacre_s {
    size_t size;
    const char *a, *b;
    int (*run)(void *user);
} nacre_s;
typedef struct nacre_fixed {
    int a;
} nacre_fixed;
NACRE_API int nacre_f(const nacre_s *s, int n);
#endif
"""
GOOD = {
    "include/nacre/abi.h": _HEADER,
    LIST: """version NACRE_X_VERSION 2
function nacre_f int(const nacre_s*,int)
constant nacre_e.NACRE_E_A 0
constant nacre_e.NACRE_E_B 4
field nacre_s.size 0 size_t
field nacre_s.a 8 const char*
field nacre_s.b 16 const char*
field nacre_s.run 24 int(*)(void*user)
field nacre_fixed.a 0 int
""",
}


def _seed(old, new, finding):
    assert old in _HEADER
    return "include/nacre/abi.h", _HEADER.replace(old, new), f"{LIST}:1: abi: {finding}"


BAD = [
    _seed("VERSION 2", "VERSION 1", "NACRE_X_VERSION: it was 2"),
    _seed("int n);", "long n);", "nacre_f: the function was 'int(const nacre_s*,int)'"),
    _seed("NACRE_API int nacre_f(const nacre_s *s, int n);\n", "", "nacre_f: the function is gone"),
    _seed("NACRE_E_B = 4", "NACRE_E_B", "nacre_e.NACRE_E_B: the constant was '4', now it is '1'"),
    _seed("(*run)(void *user)", "(*run)(void *user, int n)", "nacre_s.run: the field was"),
    _seed("int a;", "int a, b;", "nacre_fixed.b: programs hold this struct"),
    _seed("int (*run)(void *user);", "int (*run)(void *user);\n    int more;", "nacre_s.more is not described"),
    _seed("NACRE_E_B = 4", "NACRE_E_B = 4, NACRE_E_C", "nacre_e.NACRE_E_C is not described"),
    _seed("    int (*run)", "    int pad;\n    int (*run)", "nacre_s.run: the field was '24"),
]


def write(root):
    texts = {p.relative_to(root).as_posix(): p.read_text() for p in Path(root, "include/nacre").glob("*.h")}
    path, new = Path(root, LIST), describe(root, texts)
    if new is None:
        return "the public headers do not compile"
    wrong = list(broken(path.read_text().splitlines(), new)) if path.exists() else []
    if not wrong:
        path.write_text("\n".join(new) + "\n")
    return "\n".join(f"{name}: {why}" for name, why in wrong)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    sys.exit(write(Path(__file__).resolve().parents[2]) or 0)
