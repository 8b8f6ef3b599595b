"""What a figure depends on besides our code: cores, kernel, filesystem, versions."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

PACKAGES = ("fastnode", "uvloop", "httptools", "msgspec", "rocksdict")
# Filesystems on which an fsync costs nothing, so a durable rate measured there says nothing.
MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs"})


class Machine(msgspec.Struct, frozen=True):
    """The conditions printed above every table."""

    cpu: str
    cores: int
    kernel: str
    filesystem: str
    python: str
    packages: dict[str, str]

    def lines(self) -> list[str]:
        """The conditions as text."""
        packages = ", ".join(f"{name} {found}" for name, found in self.packages.items())
        return [
            f"{self.cpu}, {self.cores} cores, Linux {self.kernel}, {self.filesystem}",
            f"Python {self.python}, {packages}",
        ]


def describe(data_directory: Path) -> Machine:
    """This machine, with the filesystem that holds the data directory."""
    return Machine(
        cpu=cpu_model(Path("/proc/cpuinfo").read_text()),
        cores=len(os.sched_getaffinity(0)),
        kernel=platform.release(),
        filesystem=filesystem_of(data_directory.resolve(), Path("/proc/mounts").read_text()),
        python=platform.python_version(),
        packages={name: package_version(name) for name in PACKAGES},
    )


def cpu_model(cpuinfo: str) -> str:
    """The first model name; some architectures give none."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def sha256_by(cpuinfo: str) -> str:
    """What a SHA-256 is made by: with instructions for it one takes much less time."""
    flags = {flag for line in cpuinfo.splitlines() for flag in line.partition(":")[2].split()}
    return "instructions" if flags & {"sha_ni", "sha2"} else "arithmetic"


def filesystem_of(path: Path, mounts: str) -> str:
    """The type of the filesystem mounted nearest above the path."""
    best, found = -1, "unknown"
    for line in mounts.splitlines():
        fields = line.split()
        point = Path(fields[1])
        # A later mount on the same point hides the earlier one.
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), fields[2]
    return found


def package_version(name: str) -> str:
    """The installed version, or a word that says there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def choose_cores() -> tuple[int | None, int | None]:
    """(server, load): a core for each side, or none for either on a machine with one."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return None, None
    return cores[0], cores[-1]
