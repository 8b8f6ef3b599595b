"""The measurement of what recognising repeated calls costs still works, without a verdict."""

from pathlib import Path

import msgspec
import pytest

from bench import retries

TINY = msgspec.structs.replace(retries.SHORT, slice_seconds=0.1, sends_before=100, sends=200)


def test_every_figure_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(retries, "SHORT", TINY)
    file = tmp_path / "retries.json"
    assert retries.main(["--short", "--data-under", str(tmp_path), "--json", str(file)]) == 0
    table = capsys.readouterr().out
    rate, cpu, more, table_bytes = msgspec.json.decode(file.read_bytes())["lines"]
    assert rate["value"] > 0 and cpu["value"] > 0
    assert all(line["name"] in table for line in (rate, cpu, more, table_bytes))


def test_a_table_grows_with_what_it_remembers() -> None:
    assert retries.table_growth(50_000) > 50_000 * 16
