"""`FASTNODE_PURE=1`: the sources of the package go before what was compiled of them."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType


class _Sources:
    """Python itself would take a compiled module of the same name first."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        if path is None or package.partition(".")[0] != "fastnode":
            return None
        sources = (os.path.join(folder, f"{module}.py") for folder in path)
        source = next(filter(os.path.isfile, sources), None)
        return None if source is None else spec_from_file_location(name, source)


def prefer_sources() -> None:
    sys.meta_path.insert(0, _Sources)
