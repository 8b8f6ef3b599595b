"""The door: which implementation is behind it, and what happens when there is none."""

import importlib
import os
import subprocess
import sys

import pytest

from fastnode import (
    _core_ref,
    _deliver_ref,
    _http_ref,
    _keys_ref,
    _landed_ref,
    _meter_ref,
    _plain_ref,
    _plan_ref,
    _query_ref,
    _reads_ref,
    _send_ref,
    _sigv4_ref,
    native,
)
from fastnode._ways import WAYS

compiled_only = pytest.mark.skipif(not native.COMPILED, reason="pure mode loads no compiled module")

IMPORT_WITHOUT_EXTENSION = """
import sys
sys.modules["fastnode._core"] = None
import fastnode.native
"""


IMPORT_WITHOUT_A_WAY = """
import os
exists = os.path.exists
os.path.exists = lambda path: "store/group." not in str(path) and exists(path)
import fastnode.native
"""


def functions() -> dict[str, object]:
    return {
        name: getattr(native, name)
        for name in native.__all__
        if name[0].islower() and callable(getattr(native, name))
    }


def run_python(code: str, *, pure: str | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "FASTNODE_PURE"}
    environment |= {} if pure is None else {"FASTNODE_PURE": pure}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_mode_is_what_the_environment_asks_for() -> None:
    assert native.COMPILED == (os.environ.get("FASTNODE_PURE") != "1")


@compiled_only
def test_compiled_modules_are_the_ones_loaded() -> None:
    kinds = {type(function).__name__ for function in functions().values()}
    assert kinds == {"cython_function_or_method"}
    for name in ("fastnode._keys", "fastnode._core", "fastnode._plan", "fastnode._http"):
        assert str(sys.modules[name].__file__).endswith(".so")


@pytest.mark.skipif(native.COMPILED, reason="only pure mode loads the twins")
def test_pure_mode_loads_the_twins() -> None:
    twins = vars(_keys_ref) | vars(_core_ref) | vars(_plan_ref) | vars(_http_ref)
    twins |= vars(_plain_ref) | vars(_reads_ref) | vars(_meter_ref) | vars(_landed_ref)
    twins |= vars(_query_ref) | vars(_send_ref) | vars(_sigv4_ref) | vars(_deliver_ref)
    assert all(twins[name] is function for name, function in functions().items())


def test_missing_extension_fails_loudly_and_names_the_cure() -> None:
    result = run_python(IMPORT_WITHOUT_EXTENSION, pure=None)
    assert result.returncode == 1
    assert "make build" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", WAYS)
def test_a_way_is_what_was_compiled_of_it_or_its_source(name: str) -> None:
    file = str(importlib.import_module(f"fastnode.{name}").__file__)
    assert file.endswith(".so" if native.COMPILED else ".py")


def test_a_way_that_is_not_compiled_fails_loudly_and_names_the_cure() -> None:
    result = run_python(IMPORT_WITHOUT_A_WAY, pure=None)
    assert result.returncode == 1
    assert "fastnode.store.group is not compiled" in result.stderr
    assert "make build" in result.stderr.splitlines()[-1]
    assert run_python(IMPORT_WITHOUT_A_WAY, pure="1").returncode == 0


def test_pure_mode_needs_no_extension() -> None:
    assert run_python(IMPORT_WITHOUT_EXTENSION, pure="1").returncode == 0
