"""`fastnode version`: what is installed here, for a human or a bug report."""

import importlib.util
import platform
import sys
from collections.abc import Sequence

from fastnode import __version__
from fastnode.errors import UsageError


def version(arguments: Sequence[str]) -> int:
    if any(argument in ("-h", "--help") for argument in arguments):
        sys.stdout.write("usage: fastnode version\n\nShow the version and how it was built.\n")
        return 0
    if arguments:
        raise UsageError(f"fastnode version takes no arguments, not {arguments[0]!r}")
    sys.stdout.write(describe())
    return 0


def describe() -> str:
    raft = "present" if importlib.util.find_spec("fastnode._raftlog") else "missing: run make build"
    return (
        f"fastnode {__version__}\n"
        f"python {platform.python_version()}\n"
        f"native modules {_native_modules()}\n"
        f"raft extension {raft}\n"
    )


def _native_modules() -> str:
    try:
        from fastnode import native
    except ImportError:
        return "missing: run make build"
    return "compiled" if native.COMPILED else "pure"
