"""What a node says that must not go on."""

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, logging
from fastnode.errors import LogFailed
from fastnode.serve import die

def fail():
    raise {error}

logging.basicConfig()
loop = asyncio.new_event_loop()
loop.set_exception_handler(die)
loop.call_soon(fail)
loop.run_forever()
"""


def last_words(error: str) -> str:
    command = [sys.executable, "-c", PROGRAM.format(error=error)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    return ended.stderr


def test_a_disk_that_failed_is_no_bug() -> None:
    words = last_words("LogFailed('the log cannot be written: Input/output error')")
    assert words.endswith(
        "stopping: the log cannot be written: Input/output error: mend the disk, then start again\n"
    )
    assert "Traceback" not in words


@pytest.mark.parametrize("error", ["AssertionError('never')", "OSError(5, 'elsewhere')"])
def test_whatever_nobody_expects_is_a_bug_with_its_traceback(error: str) -> None:
    words = last_words(error)
    assert "bug: " in words and "Traceback" in words and "in fail" in words
