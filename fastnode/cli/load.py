"""`fastnode load`: hands over to the load pipeline, which is a program of its own.

The same interpreter runs it in this process's place, so that signals and exit codes are its own.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence

from fastnode.errors import UsageError


def load(arguments: Sequence[str]) -> int:
    if importlib.util.find_spec("spark_load") is None:
        raise UsageError(
            "the load pipeline is not installed here: it comes with fastnode's sources"
        )
    if importlib.util.find_spec("pyspark") is None:
        raise UsageError("the load pipeline needs PySpark: pip install 'fastnode[spark]'")
    sys.stdout.flush()
    command = [sys.executable, "-m", "spark_load", *arguments]
    # Nothing of the command is a shell's to read: the arguments are those of this process.
    os.execv(sys.executable, command)  # noqa: S606  (no shell is wanted)
