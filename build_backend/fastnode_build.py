"""PEP 517 backend: builds the Rust extension with maturin, then lets setuptools do everything else.

One wheel holds the Python code, the Cython modules and the Rust extension. `make` goes through the
same hooks (an editable install), so there is one way to build. The extension is rebuilt only when
cargo finds a changed source.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from setuptools import build_meta as _setuptools

ROOT = Path(__file__).resolve().parent.parent
EXTENSION_STEM = "_raftlog"

get_requires_for_build_sdist = _setuptools.get_requires_for_build_sdist
get_requires_for_build_wheel = _setuptools.get_requires_for_build_wheel
get_requires_for_build_editable = _setuptools.get_requires_for_build_editable
prepare_metadata_for_build_wheel = _setuptools.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = _setuptools.prepare_metadata_for_build_editable
build_sdist = _setuptools.build_sdist


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build_extension()
    return _setuptools.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    build_extension()
    return _setuptools.build_editable(wheel_directory, config_settings, metadata_directory)


def build_extension():
    """Put `fastnode/_raftlog.abi3.so` in place, taken out of the wheel that maturin builds."""
    if shutil.which("cargo") is None:
        sys.exit("fastnode: the Rust toolchain is missing: install cargo (Rust 1.85 or newer)")
    with tempfile.TemporaryDirectory() as out:
        command = [_maturin(), "build", "--release", "--locked"]
        command += ["--manifest-path", str(ROOT / "rust_ext" / "Cargo.toml"), "--out", out]
        command += ["--interpreter", sys.executable]
        subprocess.run(command, check=True)
        (wheel,) = Path(out).glob("*.whl")
        _extract_extension(wheel)


def _maturin():
    """Beside the interpreter in a prepared environment, on the PATH in an isolated build."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which("maturin", path=os.pathsep.join((beside, os.environ.get("PATH", ""))))
    if found is None:
        sys.exit("fastnode: maturin is missing although the build requires it: use pip or make")
    return found


def _extract_extension(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(".so"))
        target = ROOT / "fastnode" / Path(member).name
        # A running node has the old file mapped: write beside it and rename, never overwrite.
        fresh = target.with_suffix(".new")
        fresh.write_bytes(archive.read(member))
        fresh.chmod(0o755)
        fresh.replace(target)
