"""The measurement of FIFO queues still works, with few messages and without a verdict."""

from pathlib import Path

import msgspec
import pytest

from bench import fifo

TINY = msgspec.structs.replace(fifo.SHORT, slice_seconds=0.1, consumed=200, locked=200, probes=3)


def test_every_ratio_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fifo, "SHORT", TINY)
    file = tmp_path / "fifo.json"
    assert fifo.main(["--short", "--data-under", str(tmp_path), "--json", str(file)]) == 0
    table = capsys.readouterr().out
    lines = msgspec.json.decode(file.read_bytes())["lines"]
    assert len(lines) == 6
    assert all(line["value"] > 0 and line["name"] in table for line in lines)
