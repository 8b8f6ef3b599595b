"""`make load`: a fresh node, the smoke workload against it, and the verdict.

The pipeline is a client: it is started as a program, as anybody would start it. The last line is
the report's path, the exit code is the verdict's: 0 clean, 1 violations, 2 it could not run.

`make load-failover` is the same with three nodes, of which the one that leads is killed with -9 in
the middle and started again some seconds later (`bench.load_failover`).
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import server_process
from bench.server_process import ROOT, ServerError
from spark_load.session import CLASSES, known_classes

# A run of seconds ends before the JVM's better compiler has paid for itself.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="smoke")
    add_directory(parser)
    parser.add_argument("--classes", action="store_true", help="only make the file of classes")
    options = parser.parse_args()
    if options.classes:
        return make_classes()
    return run_in(options.directory, lambda out: run_one_node(options.workload, out))


def add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--directory", type=Path, help="default: a new one in the system's own")


def run_in(parent: Path | None, run: Callable[[Path], int]) -> int:
    """A run in a directory of its own, and where its report is."""
    directory = parent or Path(tempfile.mkdtemp(prefix="fastnode-load-"))
    directory.mkdir(parents=True, exist_ok=True)
    out = Path(tempfile.mkdtemp(prefix="run-", dir=directory)).resolve()
    try:
        code = run(out)
    except ServerError as error:
        print(f"load: {error}", file=sys.stderr)
        return 2
    # Once more: the nodes had their last word after the pipeline's.
    page = out / "history" / "report.html"
    if page.exists():
        print(page)
    return code


def run_one_node(workload: str, out: Path) -> int:
    with server_process.node(out / "data", None) as node:
        return load("run", workload, str(out), "--endpoint", f"http://{node.address}")


def load(*arguments: str) -> int:
    """The pipeline with these arguments."""
    asked = command(arguments, known_classes())
    return subprocess.run(asked, cwd=ROOT, check=False).returncode


def command(arguments: Sequence[str], java: Sequence[str]) -> list[str]:
    options = " ".join([QUICK_START, *java])
    program = [sys.executable, "-m", "spark_load", *arguments]
    return [*program, "--conf", f"spark.driver.extraJavaOptions={options}"]


def make_classes() -> int:
    """By a JVM that writes down at its end what it had loaded."""
    draft = CLASSES.with_suffix(".draft")
    with tempfile.TemporaryDirectory(prefix="fastnode-load-") as directory:
        generate = ["generate", "smoke", str(Path(directory, "trace"))]
        dump = [f"-XX:ArchiveClassesAtExit={draft}", "-Xlog:disable"]
        # The JVM ends after the pipeline: what it writes to is read to the end.
        done = subprocess.run(command(generate, dump), cwd=ROOT, check=False, capture_output=True)
    if draft.exists():
        draft.replace(CLASSES)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
