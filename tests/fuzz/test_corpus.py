"""The saved inputs of the fuzzers, each checked once: what was found stays found."""

from pathlib import Path

import pytest

from tests.fuzz.run import CORPUS, FUZZERS, check_of

INPUTS = [
    (name, path) for name in FUZZERS for path in sorted((CORPUS / name).iterdir()) if path.is_file()
]


@pytest.mark.parametrize(
    ("name", "path"), INPUTS, ids=[f"{name}-{path.name}" for name, path in INPUTS]
)
def test_saved_input_holds(name: str, path: Path) -> None:
    check_of(name)(path.read_bytes())


@pytest.mark.parametrize("name", FUZZERS)
def test_every_fuzzer_has_a_corpus(name: str) -> None:
    assert sum(known == name for known, _ in INPUTS) >= 10
