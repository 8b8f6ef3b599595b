"""The Cython extensions and their build profiles; everything else is in pyproject.toml.

`FASTNODE_BUILD=debug` compiles with every check on; without it the checks are off and the C
compiler optimises. `FASTNODE_BUILD=sanitize` is the code that ships, watched by the sanitizers for
addresses and undefined behaviour. Generated C goes to `build/`. Changing the profile rebuilds.
"""

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup

MODULES = (
    "_keys _core _md5 _plan _plain _reads _send _http _entry _occ _held _landed _query _sha256"
    " _sigv4 _deliver _filed _fifo _meter".split()
)
# Cython's table of doctests would be a name in the module that no stub explains.
COMMON_DIRECTIVES = {"autotestdict": False}
# They mean what Python means by them.
WAYS_DIRECTIVES = COMMON_DIRECTIVES | {"annotation_typing": False, "nonecheck": True}
RELEASE_DIRECTIVES = COMMON_DIRECTIVES | {
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}
DEBUG_DIRECTIVES = COMMON_DIRECTIVES | {
    "boundscheck": True,
    "wraparound": False,
    "cdivision": False,
    "initializedcheck": True,
    "nonecheck": True,
}
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
PROFILES = {
    "release": (RELEASE_DIRECTIVES, ["-O3", "-Wall", "-Wextra", "-Werror"]),
    "debug": (DEBUG_DIRECTIVES, ["-O1", "-g", "-UNDEBUG", "-Wall", "-Wextra", "-Werror"]),
    "sanitize": (RELEASE_DIRECTIVES, ["-O1", "-g", "-fno-omit-frame-pointer", *SANITIZERS]),
}
# Cython's own boilerplate leaves parameters, functions and struct members unused.
TOLERATED = ["-Wno-unused-parameter", "-Wno-unused-function", "-Wno-missing-field-initializers"]


def compiled(
    names: Sequence[str], kind: str, directives: dict[str, bool], flags: list[str], *, force: bool
) -> list[Extension]:
    wanted = [
        Extension(
            f"fastnode.{name}",
            [f"fastnode/{name.replace('.', '/')}.{kind}"],
            extra_compile_args=[*flags, *TOLERATED],
            extra_link_args=[flag for flag in flags if flag in SANITIZERS],
        )
        for name in names
    ]
    built: list[Extension] = cythonize(
        wanted, build_dir="build/cython", compiler_directives=directives, force=force
    )
    return built


def extensions() -> list[Extension]:
    profile = os.environ.get("FASTNODE_BUILD", "release")
    directives, flags = PROFILES[profile]
    stamp = Path("build", "cython-profile")
    wanted = f"{profile} {directives} {WAYS_DIRECTIVES} {flags}\n"
    changed = not stamp.exists() or stamp.read_text() != wanted
    built = compiled(MODULES, "pyx", directives, flags, force=changed)
    # In the words of Python there is little that the third level could do, and it takes its time.
    quick = ["-O2" if flag == "-O3" else flag for flag in flags]
    ways = runpy.run_path("fastnode/_ways.py")["WAYS"]
    built += compiled(ways, "py", WAYS_DIRECTIVES, quick, force=changed)
    # The extensions depend on the stamp: no profile is linked from another profile's leftovers.
    for extension in built:
        extension.depends.append(str(stamp))
    if changed:
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(wanted)
    return built


# An editable install is made again and again: what it compiled is kept, and only what has changed
# since is compiled. Elsewhere setuptools says where it wants it.
KEPT = {"build_lib": "build/lib", "build_temp": "build/temp"}

Options.warning_errors = True
kept = KEPT if "editable_wheel" in sys.argv else {}
setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count(), **kept}})
