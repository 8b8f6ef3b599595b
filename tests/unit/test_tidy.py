"""The rules of the tree that a machine can check: layers, sizes, words, calls, twins, dead files.

Each rule is a pure function from a source to complaints, so it can be shown to bite; the tests at
the end run it over the whole tree. A half-built tree is checked as far as it exists.
"""

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "fastnode"
FOLDERS: Final = ("fastnode", "tests", "bench", "build_backend", "spark_load", "rust_ext", "docs")
# Built or downloaded, not ours to tidy.
FOREIGN_FOLDERS: Final = frozenset({"target", "build", "__pycache__", ".venv", "node_modules"})
SOURCE_SUFFIXES: Final = frozenset({".py", ".pyi", ".pyx", ".pxd", ".rs", ".md", ".toml"})
LINES_MAX: Final = {".py": 400, ".rs": 400, ".pyi": 400, ".pxd": 400, ".pyx": 600}
FUNCTION_LINES_MAX: Final = 70

COMPILED: Final = frozenset(
    {"_keys", "_core", "_plan", "_plain", "_send", "_http", "_occ", "_query", "_sigv4", "_deliver"}
    | {"_sha256", "_filed", "_fifo", "_md5", "_meter", "_reads", "_entry", "_landed", "_held"}
)
TWINS: Final = frozenset(f"{name}_ref" for name in COMPILED)
LEAVES: Final = frozenset({"alarm", "config", "errors", "clock", "flow", "native", "meter"})
# Leaves of the operator's side: they may build on the others, never the other way round.
START_LEAVES: Final = frozenset(
    {"option_values", "settings", "settings_check", "settings_file", "logs", "data_format"}
    | {"datadir", "reload", "tls"}
)
# What each part may import besides itself and the leaves. Only node.py and serve.py know every
# layer.
MAY_IMPORT: Final[dict[str, frozenset[str]]] = {
    "http": frozenset({"cluster", "queue"}),
    # Members move whole groups, so the cluster knows their state and their consensus too.
    "cluster": frozenset({"queue", "store", "raft", "peers"}),
    "queue": frozenset({"store"}),
    "store": frozenset({"raft"}),
    "raft": frozenset(),
    "peers": frozenset(),
    "machine": frozenset({"cluster", "store", "raft", "upkeep"}),
    "node": frozenset(
        {"machine", "cluster", "queue", "store", "raft", "peers", "upkeep", "node_metrics"}
    ),
    "node_metrics": frozenset({"queue", "store", "raft", "upkeep"}),
    "serve": frozenset({"machine", "node", "http", "cluster", "queue"}),
    "upkeep": frozenset({"store", "raft"}),
    # A backup on disk is states of groups, and becomes a member's directory.
    "backup": frozenset({"cluster", "store"}),
    # What node and serve are to a node of one process, it is to one of several.
    "workers": frozenset(
        {"machine", "node", "serve", "http", "cluster", "queue", "store", "raft", "peers"}
        | {"upkeep", "node_metrics"}
    ),
    # `check` looks at the state of a stopped node; `doctor` and `config` read what a node would.
    "cli": frozenset({"serve", "store", "workers", "http", "queue", "upkeep", "backup", "cluster"}),
    "__main__": frozenset({"cli"}),
}

SHELLS: Final = ("fastnode.cli", "fastnode.__main__", "fastnode.node", "fastnode.serve")
BANNED_CALLS: Final = re.compile(
    r"(time\.time(_ns)?|random(\..+)?|(datetime\.)?(datetime|date)\.(now|utcnow|today)"
    r"|uuid\.uuid[14]|print)"
)
# Code from data: whoever writes the data would run in the node.
DANGEROUS: Final = re.compile(
    r"(pickle|marshal|shelve|dill|cloudpickle)(\..+)?|os\.(system|popen)|(builtins\.)?(eval|exec)"
    r"|(asyncio\.)?create_subprocess_shell|subprocess\.get(status)?output|yaml\.load"
)
SANS_IO: Final = re.compile(
    r"fastnode\.(config|errors|flow|queue(\..+)?|cluster\.(capabilities|partition_map)"
    r"|_(keys|core|entry|held|landed|md5|plan|http|occ|query|sigv4)_ref"
    r"|http\.(http1|chunked|holding|identity|shedding|sigv4(_\w+)?|\w+_codec|query_\w+|xml_\w+)"
    r"|store\.(apply|backlog|heads|keyspace|latches|records|retry|sums|counters|window)"
    r"|raft\.(driver|lease|conf_change|packets)"
    r"|peers\.(frames|handshake|lanes|offsets)"
    r"|workers\.(assignment|backoff|changes|packets))"
)
EFFECTS: Final = frozenset(
    {"asyncio", "logging", "os", "random", "secrets", "select", "socket", "subprocess"}
    | {"tempfile", "threading", "time", "uvloop"}
)
FORBIDDEN_WORDS: Final = re.compile(
    r"\b(TODO|FIXME|XXX|HACK)\b|\b(?:PR|[Ii]ssue) #\d*|(?i:\bphases?\b|\bpreviously\b)"
    r"|(?<![\w.~}])/(?:work|root|tmp)/|\b(?:pypi\.org|pythonhosted\.org|crates\.io)\b"
)
# Reached from no command, for the stated reason.
ENTRY_POINTS: Final = {
    "fastnode.__main__": "the program",
    "fastnode.workers.__main__": "a worker's process, started by its supervisor",
    "fastnode.store.snapshot": "state transfer; a cluster's members will call it",
}


class Import(NamedTuple):
    line: int
    module: str


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """`fastnode.queue.send` → `queue`; the package itself → ``."""
    return [*module.split("."), ""][1]


def imports_of(path: Path, text: str) -> list[Import]:
    found = cython_imports(text) if path.suffix in (".pyx", ".pxd") else python_imports(path, text)
    return [imported for imported in found if imported.module.split(".")[0] == "fastnode"]


def python_imports(path: Path, text: str) -> list[Import]:
    found: list[Import] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve(path, node.level, node.module or "")
            found += [Import(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    return found


def resolve(path: Path, level: int, module: str) -> str:
    if level == 0:
        return module
    package = path.relative_to(ROOT).parent.parts
    return ".".join([*package[: len(package) - level + 1], *filter(None, [module])])


def cython_imports(text: str) -> list[Import]:
    found: list[Import] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if match := re.match(r"\s*from\s+([\w.]+)\s+c?import\s+(.+)", line):
            names = re.findall(r"(\w+)(?:\s+as\s+\w+)?", match[2]) or [""]  # below it
            found += [Import(number, f"{match[1]}.{name}".rstrip(".")) for name in names]
        elif match := re.match(r"\s*c?import\s+([\w.]+)", line):
            found.append(Import(number, match[1]))
    return found


def check_layers(path: Path, text: str) -> Iterator[str]:
    own = part_of(module_name(path))
    for line, module in imports_of(path, text):
        target = part_of(module)
        if target == "_raftlog" and module_name(path) != "fastnode.raft.groups":
            yield f"{line}: only raft/groups.py imports _raftlog"
        # What C knows of C is nobody else's business.
        elif target in COMPILED | TWINS and own not in COMPILED | TWINS | {"native"}:
            if path.suffix != ".pxd":
                yield f"{line}: only native.py imports {target}; import fastnode.native"
        elif not is_allowed(own, target):
            yield f"{line}: {own} must not import {module}: imports go down one layer only"


def is_allowed(own: str, target: str) -> bool:
    if target in ("", own, "__version__", "_raftlog") or (own, target) == ("", "_pure"):
        return True
    if own in COMPILED | TWINS | {"native"}:
        return target in COMPILED | TWINS | {"_ways", "config", "errors"}
    if own in LEAVES:
        return target in LEAVES
    return target in LEAVES | START_LEAVES | MAY_IMPORT.get(own, frozenset())


def check_size(path: Path, text: str) -> Iterator[str]:
    lines = len(text.splitlines())
    if lines > LINES_MAX.get(path.suffix, lines):
        yield f"{lines} lines, {LINES_MAX[path.suffix]} at most: split by reason to change"


def check_functions(path: Path, text: str) -> Iterator[str]:
    spans = python_functions(text) if path.suffix == ".py" else indented_functions(text)
    for name, first, last in spans:
        if last - first + 1 > FUNCTION_LINES_MAX:
            yield f"{first}: {name} has {last - first + 1} lines, {FUNCTION_LINES_MAX} at most"


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno or node.lineno


def indented_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Cython and formatted Rust: a function lasts until a line as shallow as its first one."""
    lines = text.splitlines()
    start = re.compile(r"(\s*)(?:pub(?:\([\w ]+\))? |async |const |unsafe )*(?:fn|c?p?def)\s(.*)")
    for first, line in enumerate(lines, start=1):
        match = start.match(line)
        if match is None or not re.search(r"\w\(|\w<", match[2]):
            continue
        last = first
        for number, later in enumerate(lines[first:], start=first + 1):
            is_inside = later.startswith((match[1] + " ", match[1] + ")", match[1] + "where"))
            if later.strip() and not is_inside:
                break
            last = number if later.strip() else last
        yield match[2].split("(")[0], first, last


def check_words(path: Path, text: str) -> Iterator[str]:
    # This file has to spell the words it looks for.
    if path == Path(__file__):
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if match := FORBIDDEN_WORDS.search(line):
            yield f"{number}: {match[0]!r}: give the reason, not history, tasks or machines"


def check_calls(path: Path, text: str) -> Iterator[str]:
    if module_name(path).startswith(SHELLS):
        return
    names = {line: set[str]() for line in range(1, len(text.splitlines()) + 2)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute | ast.Name):
            names[node.lineno].add(ast.unparse(node))
    for line, module in python_imports(path, text):
        names[line].add(module)
    for line, used in names.items():
        for name in sorted(used):
            if BANNED_CALLS.fullmatch(name):
                yield f"{line}: {name}: take it as an argument (clock.py), or do it in a shell"


def check_dangers(path: Path, text: str) -> Iterator[str]:
    for line, module in python_imports(path, text):
        if DANGEROUS.fullmatch(module):
            yield f"{line}: {module}: read data by a schema, start programs without a shell"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            shell = [word.value for word in node.keywords if word.arg == "shell"]
            has_shell = any(ast.unparse(value) != "False" for value in shell)
            if has_shell or DANGEROUS.fullmatch(ast.unparse(node.func)):
                yield f"{node.lineno}: {ast.unparse(node.func)}: no code from data, no shell"


def check_sans_io(path: Path, text: str) -> Iterator[str]:
    if SANS_IO.fullmatch(module_name(path)):
        for line, module in python_imports(path, text):
            if module.split(".")[0] in EFFECTS:
                yield f"{line}: imports {module}, but decides only: take facts, return values"


def check_header(path: Path, text: str) -> Iterator[str]:
    starts = ("//",) if path.suffix == ".rs" else ('"""', "#")
    if text.strip() and not text.lstrip().startswith(starts):
        yield "1: the first lines must say what lives here and what does not"


def check_twins(path: Path, _: str) -> Iterator[str]:
    for name in (f"{path.stem}.pxd", f"{path.stem}.pyi", f"{path.stem}_ref.py"):
        if not path.with_name(name).exists():
            yield f"1: {name} is missing beside it"


def dead_modules(imports: dict[str, set[str]], entry_points: Iterable[str]) -> set[str]:
    """Modules that no chain of imports from an entry point reaches."""
    reached: set[str] = set()
    waiting = [name for name in entry_points if name in imports]
    while waiting:
        module = waiting.pop()
        reached.add(module)
        parents = {module.rsplit(".", count)[0] for count in range(module.count(".") + 1)}
        used = parents | imports[module] | {name.rpartition(".")[0] for name in imports[module]}
        waiting += [name for name in used if name in imports and name not in reached]
    return set(imports) - reached


class Rule(NamedTuple):
    check: Callable[[Path, str], Iterator[str]]
    folders: tuple[str, ...]
    suffixes: frozenset[str]


CODE: Final = frozenset({".py", ".pyx", ".pxd", ".pyi", ".rs"})
RULES: Final = (
    Rule(check_layers, ("fastnode",), frozenset({".py", ".pyi", ".pyx", ".pxd"})),
    Rule(check_size, FOLDERS, frozenset(LINES_MAX)),
    Rule(check_functions, FOLDERS, frozenset({".py", ".pyx", ".rs"})),
    Rule(check_words, FOLDERS, SOURCE_SUFFIXES),
    Rule(check_calls, ("fastnode",), frozenset({".py"})),
    Rule(check_sans_io, ("fastnode",), frozenset({".py"})),
    Rule(check_dangers, ("fastnode", "spark_load", "build_backend"), frozenset({".py"})),
    Rule(check_header, FOLDERS, CODE),
    Rule(check_twins, ("fastnode",), frozenset({".pyx"})),
)
# Source → the rule that must complain about it, as if it were the named file.
OFFENCES: Final = (
    (check_layers, "fastnode/store/x.py", "from fastnode.queue import send"),
    (check_layers, "fastnode/store/x.py", "from ..queue.send import f"),
    (check_layers, "fastnode/http/x.py", "def f():\n    import fastnode.store.txn"),
    (check_layers, "fastnode/queue/x.py", "import fastnode.raft.groups"),
    (check_layers, "fastnode/queue/x.py", "from fastnode import node"),
    (check_layers, "fastnode/queue/x.py", "from fastnode import _keys_ref"),
    (check_layers, "fastnode/raft/driver.py", "from fastnode._raftlog import RaftGroups"),
    (check_layers, "fastnode/clock.py", "import fastnode.settings"),
    (check_layers, "fastnode/settings.py", "from fastnode.store import engine"),
    (check_layers, "fastnode/_core.pyx", "from fastnode.store.records cimport encode"),
    (check_size, "fastnode/x.py", "\n" * 401),
    (check_size, "fastnode/x.pyx", "\n" * 601),
    (check_functions, "fastnode/x.py", "def f():\n" + "    pass\n" * 70),
    (
        check_functions,
        "fastnode/x.pyx",
        "cdef int f(\n    int a,\n) except -1:\n" + "    a\n\n" * 68,
    ),
    (check_functions, "rust_ext/src/x.rs", "    pub(crate) fn f(\n    ) {\n" + "        a;\n" * 69),
    (check_words, "docs/x.md", "a FIXME here"),
    (check_words, "fastnode/x.py", "# Phase 2 of the plan"),
    (check_words, "Makefile", "cd /" + "work/main"),
    (check_calls, "fastnode/queue/x.py", "import time\ntime.time()"),
    (check_calls, "fastnode/queue/x.py", "from time import time"),
    (check_calls, "fastnode/queue/x.py", "import random"),
    (check_calls, "fastnode/queue/x.py", "from datetime import datetime\ndatetime.now()"),
    (check_calls, "fastnode/queue/x.py", "import uuid\nuuid.uuid4()"),
    (check_calls, "fastnode/queue/x.py", "print(1)"),
    (check_dangers, "fastnode/x.py", "import pickle"),
    (check_dangers, "spark_load/x.py", "from marshal import loads"),
    (check_dangers, "fastnode/x.py", "import os\nos.system('ls')"),
    (check_dangers, "fastnode/x.py", "import subprocess\nsubprocess.run('ls', shell=True)"),
    (check_dangers, "fastnode/x.py", "eval('1')"),
    (check_sans_io, "fastnode/queue/x.py", "import asyncio"),
    (check_sans_io, "fastnode/store/apply.py", "from os import environ"),
    (check_header, "fastnode/x.py", "import os"),
    (check_header, "rust_ext/src/x.rs", "use std;"),
    (check_twins, "fastnode/_absent.pyx", ""),
)
INNOCENT: Final = '''"""What lives here."""
from fastnode import native
from fastnode.errors import OperationError
from fastnode.store.txn import Transaction


def f(clock, path):
    return clock.time(), f"{path}/tmp/phased_array"
'''


def sources(folders: Iterable[str], suffixes: frozenset[str]) -> Iterator[Path]:
    for folder in folders:
        for parent, folders_inside, names in os.walk(ROOT / folder):
            folders_inside[:] = sorted(set(folders_inside) - FOREIGN_FOLDERS)
            found = (Path(parent, name) for name in sorted(names))
            yield from (path for path in found if path.suffix in suffixes)
    if ".md" in suffixes:
        top = [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "setup.py", *ROOT.glob(".ci/*")]
        yield from (path for path in top if path.is_file())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__name__)
def test_tree_keeps_rule(rule: Rule) -> None:
    complaints = [
        f"{path.relative_to(ROOT)}:{complaint}"
        for path in sources(rule.folders, rule.suffixes)
        for complaint in rule.check(path, path.read_text(encoding="utf-8"))
    ]
    assert not complaints, "\n" + "\n".join(complaints)


@pytest.mark.skipif(
    not (PACKAGE / "node.py").exists(), reason="without node.py no module is reached yet"
)
def test_every_module_is_reached_from_the_program() -> None:
    imports: dict[str, set[str]] = {}
    for path in sources(("fastnode",), frozenset({".py", ".pyx"})):
        found = imports_of(path, path.read_text(encoding="utf-8"))
        imports.setdefault(module_name(path), set()).update(module for _, module in found)
    assert dead_modules(imports, ENTRY_POINTS) == set()


@pytest.mark.parametrize(("check", "name", "text"), OFFENCES)
def test_rule_bites(check: Callable[[Path, str], Iterator[str]], name: str, text: str) -> None:
    assert list(check(ROOT / name, text))


@pytest.mark.parametrize("rule", RULES[:-1], ids=lambda rule: rule.check.__name__)
def test_rule_spares_ordinary_code(rule: Rule) -> None:
    assert list(rule.check(PACKAGE / "queue" / "x.py", INNOCENT)) == []


def test_unreached_module_is_dead() -> None:
    imports = {"p": set[str](), "p.main": {"p.a.f"}, "p.a": set[str](), "p.b": {"p.a"}}
    assert dead_modules(imports, ["p.main"]) == {"p.b"}


def test_tree_is_found() -> None:
    assert Path(__file__) in sources(FOLDERS, SOURCE_SUFFIXES)
    assert PACKAGE / "__init__.py" in sources(("fastnode",), CODE)


def test_layer_table_names_only_parts_of_the_tree() -> None:
    assert set().union(*MAY_IMPORT.values()) <= set(MAY_IMPORT)
