"""`make fuzz`: one fuzzer for some seconds, or one saved input again.

    python -m tests.fuzz.run http 120
    python -m tests.fuzz.run http tests/fuzz/corpus/http/crash-...

Atheris guides the inputs by coverage, from the corpus in the tree and from what earlier runs found
(`build/fuzz`). A failing input is written to the corpus, where `test_corpus.py` finds it too.
"""

import gc
import importlib
import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CORPUS: Final = ROOT / "tests" / "fuzz" / "corpus"
FUZZERS: Final = (
    *("http", "json", "query", "tokens"),
    *("sigv4", "records", "peers", "snapshot", "log", "config"),
)
INPUT_BYTES_MAX: Final = 16_384
INPUT_SECONDS_MAX: Final = 20
MEMORY_MB_MAX: Final = 1_024
INPUTS_PER_COLLECTION: Final = 20

Check = Callable[[bytes], None]


def check_of(name: str) -> Check:
    check: Check = importlib.import_module(f"tests.fuzz.fuzz_{name}").check
    return check


def fuzz(name: str, seconds: int) -> None:
    """Does not return: the fuzzing engine ends the process, with 0 if nothing was found."""
    import atheris

    from tests.fuzz.mutations import DICTIONARY, mutator_of

    with atheris.instrument_imports(include=["fastnode", "tests.fuzz"]):
        check = check_of(name)
    found = ROOT / "build" / "fuzz" / name
    found.mkdir(parents=True, exist_ok=True)
    words = ROOT / "build" / "fuzz" / "words"
    words.write_text(DICTIONARY)
    print(f"fuzz {name}: replay with `python -m tests.fuzz.run {name} FILE`", flush=True)
    options = [
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={INPUT_SECONDS_MAX}",
        f"-rss_limit_mb={MEMORY_MB_MAX}",
        f"-artifact_prefix={CORPUS / name}/",
        f"-dict={words}",
        "-verbosity=0",
    ]
    arguments = ["fuzz", *options, str(found), str(CORPUS / name)]
    atheris.Setup(arguments, _timed(name, check, seconds), custom_mutator=mutator_of(name))
    atheris.Fuzz()


def _timed(name: str, check: Check, seconds: int) -> Check:
    """The check, until the time is up. A world is a few objects for the collector and megabytes for
    the process, which would wait far too long: so worlds are collected here.
    """
    gc.freeze()
    end, numbers = time.monotonic() + seconds, itertools.count(1)

    def timed(data: bytes) -> None:
        check(data)
        number = next(numbers)
        if number % INPUTS_PER_COLLECTION == 0:
            gc.collect()
        if time.monotonic() > end:
            print(f"fuzz {name}: {number} inputs in {seconds} s, none failed", flush=True)
            # Past the engine's own end, which runs destructors that Python no longer expects.
            os._exit(0)

    return timed


def main() -> None:
    name, what = sys.argv[1:]
    if what.isdigit():
        fuzz(name, int(what))
    else:
        check_of(name)(Path(what).read_bytes())


if __name__ == "__main__":
    main()
