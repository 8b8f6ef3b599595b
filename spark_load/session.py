"""The Spark session of a command: found or started quietly, ended with it. What runs on it is not
here.

Local by default; `--master` names another one, and then this package goes to its executors as an
archive, so they need Python and pyarrow only. What Spark writes to the terminal goes to a file, and
what it throws becomes one line.
"""

import argparse
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_load.errors import LoadError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER: Final = "local[*]"
# One answer in every time zone; no web page.
SETTINGS: Final = {
    "spark.app.name": "fastnode load",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL_SETTINGS: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Spark's classes as a JVM keeps them in memory: to load them from there takes it half the time. A
# fresh clone has the file after `make load`; all works without it.
CLASSES: Final = Path(sys.prefix) / "spark-classes.jsa"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that every command with a session has."""
    group = parser.add_argument_group("Spark")
    group.add_argument(
        "--master",
        default=os.environ.get("SPARK_MASTER", LOCAL_MASTER),
        help="local[N], spark://host:port or k8s://… (default: %(default)s)",
    )
    group.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark, as spark-submit has it; may be repeated",
    )
    group.add_argument(
        "--spark-log", type=Path, metavar="FILE", help="keep what Spark itself has to say"
    )


@contextmanager
def session(options: argparse.Namespace, master: str | None = None) -> Iterator["SparkSession"]:
    """The session that the command's flags ask for; `master` where a command knows better. Within
    another one it is that one.
    """
    active = _active()
    if active is not None:
        yield active
        return
    with tempfile.TemporaryDirectory(prefix="spark-load-") as scratch:
        log = options.spark_log or Path(scratch, "spark.log")
        spark = _start(master or options.master, _parse(options.conf), Path(scratch), log)
        try:
            with plain_errors():
                yield spark
        finally:
            spark.stop()


@contextmanager
def plain_errors() -> Iterator[None]:
    """Whatever Spark throws in one line, because its own message is a page."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise LoadError(f"Spark failed: {gist(str(error))}") from error


def is_local(master: str) -> bool:
    return master.startswith("local")


def local_settings() -> dict[str, str]:
    known = known_classes()
    return LOCAL_SETTINGS | ({"spark.driver.extraJavaOptions": " ".join(known)} if known else {})


def known_classes() -> list[str]:
    """Flags of the JVM. One that cannot use the file says so, unless it is told not to."""
    return [f"-XX:SharedArchiveFile={CLASSES}", "-Xlog:disable"] if CLASSES.exists() else []


def gist(message: str) -> str:
    """Of a Python traceback the end says what happened, of a JVM's the first cause, of everything
    else the beginning.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not lines:
        return "without a message"
    is_traceback = any(line.startswith("Traceback (most recent") for line in lines)
    # A JVM's frames may follow the traceback.
    python = [line for line in lines if not line.startswith(("at ", "...", "Caused by"))]
    if is_traceback and python:
        return python[-1]
    return next((line for line in lines if line.startswith("Caused by:")), lines[0])


def archive(directory: Path) -> Path:
    """This package as a zip file that Python can import from."""
    package = Path(__file__).parent
    path = directory / "spark_load.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archived:
        for source in sorted(package.rglob("*")):
            if source.suffix in (".py", ".toml"):
                archived.write(source, source.relative_to(package.parent))
    return path


def _active() -> "SparkSession | None":
    # Who has not loaded PySpark yet has no session, and need not wait for it to load.
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _parse(settings: list[str]) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in settings]
    for key, sign, _ in pairs:
        if not sign or not key:
            raise LoadError(f"--conf {key}: expected KEY=VALUE")
    return {key: value for key, _, value in pairs}


def _start(master: str, extra: dict[str, str], scratch: Path, log: Path) -> "SparkSession":
    builder = _builder().master(master)
    settings = SETTINGS | (local_settings() if is_local(master) else {}) | extra
    for key, value in settings.items():
        builder = builder.config(key, value)
    _choose_python(master, extra)
    try:
        with _errors_to(log):
            spark = builder.getOrCreate()
    except Exception as error:
        # py4j hands on whatever the JVM throws; one that has died says why in the log.
        reason = gist(str(error)) if str(error) else gist(log.read_text(errors="replace"))
        raise LoadError(f"cannot start Spark on {master}: {reason}") from error
    if not is_local(master):
        spark.sparkContext.addPyFile(str(archive(scratch)))
    return spark


def _choose_python(master: str, extra: dict[str, str]) -> None:
    """Which Python runs the tasks. Only spark-submit looks at the setting, PySpark at a variable;
    on this machine tasks have what this process has.
    """
    if "spark.pyspark.python" in extra:
        os.environ["PYSPARK_PYTHON"] = extra["spark.pyspark.python"]
    elif is_local(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """A JVM that is started meanwhile writes its log there, and keeps doing so."""
    terminal = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _builder() -> "SparkSession.Builder":
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise LoadError("Java is missing: install a JRE 17 or newer, or set JAVA_HOME")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise LoadError("PySpark is missing: pip install 'fastnode[spark]'") from None
    return SparkSession.Builder()
