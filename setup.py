"""The Cython extensions and their build profiles; everything else is in pyproject.toml.

`FASTNODE_BUILD=debug` compiles with every check on; without it the checks are off and the C
compiler optimises. `FASTNODE_BUILD=sanitize` is the code that ships, watched by the sanitizers for
addresses and undefined behaviour. Generated C goes to `build/`. Changing the profile rebuilds.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup

MODULES = (
    "_keys _core _plan _plain _send _http _occ _query _sigv4 _deliver _filed _fifo _meter".split()
)
# Cython's table of doctests would be a name in the module that no stub explains.
COMMON_DIRECTIVES = {"autotestdict": False}
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


def extensions() -> list[Extension]:
    profile = os.environ.get("FASTNODE_BUILD", "release")
    directives, flags = PROFILES[profile]
    stamp = Path("build", "cython-profile")
    wanted = f"{profile} {directives} {flags}\n"
    changed = not stamp.exists() or stamp.read_text() != wanted
    built: list[Extension] = cythonize(
        [
            Extension(
                f"fastnode.{name}",
                [f"fastnode/{name}.pyx"],
                extra_compile_args=[*flags, *TOLERATED],
                extra_link_args=[flag for flag in flags if flag in SANITIZERS],
            )
            for name in MODULES
        ],
        build_dir="build/cython",
        compiler_directives=directives,
        force=changed,
    )
    # The extensions depend on the stamp: no profile is linked from another profile's leftovers.
    for extension in built:
        extension.depends.append(str(stamp))
    if changed:
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(wanted)
    return built


Options.warning_errors = True
setup(ext_modules=extensions())
