"""A Spark cluster on this machine, from the pyspark package: a master and workers as processes."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
START_SECONDS = 90.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def spark_cluster(folder: Path, workers: int) -> Iterator[str]:
    """The master's address, once all workers have registered."""
    with ExitStack() as stack:
        at = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(process(folder / "master", MASTER, *at))
        match = await_line(master, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            limits = ["--cores", "2", "--memory", "1g", "--webui-port", "0"]
            name = folder / f"worker-{number}"
            log = stack.enter_context(
                process(name, WORKER, *limits, "--work-dir", str(name / "work"), match[1])
            )
            await_line(log, r"Successfully registered with master")
        yield match[1]


@contextmanager
def process(folder: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A class of Spark's in a folder of its own, so that it finds nothing of this project."""
    folder.mkdir(parents=True)
    log = folder / "log"
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with log.open("wb") as file:
        started = subprocess.Popen(
            [HOME / "bin" / "spark-class", name, *arguments],
            cwd=folder,
            env=inherited | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def await_line(log: Path, pattern: str) -> re.Match[str]:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        match = re.search(pattern, log.read_text(errors="replace"))
        if match is not None:
            return match
        time.sleep(0.2)
    raise AssertionError(f"no {pattern!r} in {log.read_text(errors='replace')[-2000:]}")
