"""The measurement of receives over partitions still works, with few calls and without a verdict."""

from pathlib import Path

import msgspec
import pytest

from bench import fanout
from bench.server_process import ServerError

TINY = msgspec.structs.replace(fanout.SHORT, probes=5, backlog=400, load_seconds=0.1)


def test_every_number_of_partitions_has_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fanout, "SHORT", TINY)
    file = tmp_path / "fanout.json"
    assert fanout.main(["--short", "--data-under", str(tmp_path), "--json", str(file)]) == 0
    one, many = msgspec.json.decode(file.read_bytes())["figures"]
    assert (one["partitions"], one["visited"]) == (1, 1)
    assert many["partitions"] == 32
    assert many["visited"] > 1
    assert all(row["rows"] >= 10 and row["call_cpu_us"] > 0 for row in (one, many))
    assert len(capsys.readouterr().out.splitlines()) == 2 + 1 + 2


def test_a_receive_that_is_not_explained_is_noticed() -> None:
    explained = fanout.Explained(partitions=3, rows=12, microseconds=450)
    assert fanout.parse_explanation("partitions=3;rows=12;us=450;remote=0") == explained
    with pytest.raises(ServerError):
        fanout.parse_explanation("")


def test_the_budget_is_judged_by_the_loaded_tail() -> None:
    row = fanout.Figures(1, 1, 10, 50, 100, 1_000, 80, 100_000)
    assert row.is_met
    assert not msgspec.structs.replace(row, loaded_p99_us=100_001).is_met
