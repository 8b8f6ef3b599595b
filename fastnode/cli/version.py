"""`fastnode version`: what is installed here, for a human or a bug report."""

import importlib.util
import json
import platform
import sys
from collections.abc import Sequence

from fastnode import __version__
from fastnode.errors import UsageError


def version(arguments: Sequence[str]) -> int:
    if any(argument in ("-h", "--help") for argument in arguments):
        sys.stdout.write(
            "usage: fastnode version [--json]\n\nShow the version and how it was built.\n"
        )
        return 0
    if arguments and list(arguments) != ["--json"]:
        raise UsageError(f"fastnode version takes no arguments but --json, not {arguments[0]!r}")
    sys.stdout.write(json.dumps(facts()) + "\n" if arguments else describe())
    return 0


def describe() -> str:
    return "".join(f"{name.replace('_', ' ')} {fact}\n" for name, fact in facts().items())


def facts() -> dict[str, str]:
    has_raft = importlib.util.find_spec("fastnode._raftlog") is not None
    return {
        "fastnode": __version__,
        "python": platform.python_version(),
        "native_modules": _native_modules(),
        "raft_extension": "present" if has_raft else "missing: run make build",
    }


def _native_modules() -> str:
    try:
        from fastnode import native
    except ImportError:
        return "missing: run make build"
    return "compiled" if native.COMPILED else "pure"
