"""`python -m tests.fuzz.reach NAME`: how much of what a fuzzer is for its inputs reach.

The saved inputs, and what runs found (`build/fuzz`), are checked once more with a tracer, over the
modules that the fuzzer is about; of compiled ones over their twins. Lines that only define are left
out.
"""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import CodeType, FrameType
from typing import Any, Final

from tests.fuzz.run import CORPUS, FUZZERS, ROOT, check_of

INPUTS_MAX: Final = 1_500
ABOUT: Final = {
    "http": ("fastnode.http.http1", "fastnode.http.chunked", "fastnode._http_ref"),
    "json": (
        *("fastnode.http.json_codec", "fastnode._plain_ref", "fastnode._reads_ref"),
        "fastnode.queue.validate",
    ),
    "query": ("fastnode.http.query_codec", "fastnode._query_ref"),
    "tokens": ("fastnode.queue.move_record", "fastnode.queue.redrive_policy"),
    "sigv4": ("fastnode.http.sigv4", "fastnode.http.sigv4_parse", "fastnode._sigv4_ref"),
    "records": ("fastnode._core_ref", "fastnode._keys_ref", "fastnode.store.records"),
    "peers": ("fastnode.peers.frames", "fastnode.peers.handshake", "fastnode.peers.link"),
    "snapshot": ("fastnode.store.snapshot",),
    "log": ("fastnode._raftlog",),
    "config": ("fastnode.settings_file", "fastnode.cli.hocon", "fastnode.cli.elasticmq"),
}
assert set(ABOUT) == set(FUZZERS)

Trace = Callable[[FrameType, str, Any], Any]


def lines_of(path: str) -> set[int]:
    """Lines inside of functions: those outside run when the module is loaded."""
    code = compile(open(path, encoding="utf-8").read(), path, "exec")
    return {line for inner in _functions(code) for line in _lines(inner)}


def _functions(code: CodeType, *, is_inside: bool = False) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            # A function has names of its own that are quick to find; a class body has not.
            is_function = is_inside or bool(inner.co_flags & 2)
            if is_function:
                yield inner
            yield from _functions(inner, is_inside=is_function)


def _lines(code: CodeType) -> Iterator[int]:
    first = code.co_firstlineno
    return (line for _, _, line in code.co_lines() if line is not None and line != first)


def reached(name: str, paths: set[str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {path: set() for path in paths}

    def enter(frame: FrameType, _event: str, _told: Any) -> Trace | None:
        lines = found.get(frame.f_code.co_filename)
        if lines is None:
            return None

        def each(here: FrameType, event: str, _told: Any) -> Trace:
            if event == "line":
                lines.add(here.f_lineno)
            return each

        return each

    check = check_of(name)
    directories = [CORPUS / name, ROOT / "build" / "fuzz" / name]
    inputs = [path for each in directories if each.is_dir() for path in sorted(each.iterdir())]
    for path in inputs[:INPUTS_MAX]:
        # Each time anew: an input that nests too deeply ends the tracing as well.
        sys.settrace(enter)
        try:
            check(path.read_bytes())
        finally:
            sys.settrace(None)
    return found


def main() -> None:
    (name,) = sys.argv[1:]
    files = {import_module(module).__file__ or "": module for module in ABOUT[name]}
    python = {path: module for path, module in files.items() if path.endswith(".py")}
    if not python:
        print(f"fuzz {name}: compiled code alone, whose lines are not counted")
        return
    found = reached(name, set(python))
    for path, module in python.items():
        lines = lines_of(path)
        count = len(found[path] & lines)
        print(f"fuzz {name}: {count} of {len(lines)} lines of {module} ({count / len(lines):.0%})")


if __name__ == "__main__":
    main()
