"""The measurement of workers still works, with little load and without a verdict."""

from pathlib import Path

import msgspec
import pytest

from bench import workers

TINY = workers.Plan(rounds=1, slice_seconds=0.2, warmup_seconds=0.1)


def test_the_table_comes_out_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "workers.json"
    arguments = ["--short", "--data-under", str(tmp_path), "--json", str(file)]
    assert workers.main(arguments, plan=TINY) == 0
    lines = {
        line["name"]: line["value"] for line in msgspec.json.decode(file.read_bytes())["lines"]
    }
    assert lines["2 workers / 1 process: rate"] > 0
    assert lines["2 workers / 1 process: CPU per request"] > 0
    assert 0 < lines["connections handed over: share"] < 1
    assert "≥ 1.3" in capsys.readouterr().out


def test_each_group_has_as_many_queues() -> None:
    names = workers.queue_names()
    assert len(set(names)) == workers.QUEUES
