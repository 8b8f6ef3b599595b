"""A small file system of its own, for tests that fill it."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[Path]:
    """Mount one at `path`, or skip the test where that cannot be done."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount the small file system that this test fills")
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        # Lazily: what a failed test left running may still be in there.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill_up(descriptor: int) -> None:
    """Until not a byte more fits."""
    try:
        while os.write(descriptor, bytes(65_536)):
            pass
    except OSError:
        pass


@contextmanager
def filled(directory: Path, seconds: float) -> Iterator[None]:
    """Not a byte more fits for so long, in spite of what is freed meanwhile."""
    ballast = directory / "ballast"
    descriptor = os.open(ballast, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            fill_up(descriptor)
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)
        ballast.unlink()
