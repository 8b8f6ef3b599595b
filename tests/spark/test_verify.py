"""Both engines over the same history in files: planted faults are found, each by its check and
nothing else by any, and what SQLite says of verdict and numbers Spark says too.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_load.report.aggregates import read_run
from spark_load.report.runs import QUANTILES, Run
from spark_load.small import is_small, open_small
from spark_load.spark_facts import open_facts
from spark_load.verdict import Verdict
from spark_load.verify import verify
from tests.spark.bulk import GROUPS, PLAIN, write_bulk
from tests.spark.calls import TRACE_ID, Row, message, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def key_of(number: int) -> str:
    return f"{TRACE_ID}-{number}-0"


def received_again(spark: "SparkSession", number: int, seconds: float) -> list[Row]:
    """So long after its turn, and deleted at once."""
    at = number / 10_000 + seconds
    again = message(key_of(number), message_id=id_of(spark, number), receipt="a" * 16)
    return [
        row("ReceiveMessage", PLAIN, at, visibility=2, messages=[again]),
        row("DeleteMessage", PLAIN, at + 0.02, messages=[again]),
    ]


def id_of(spark: "SparkSession", number: int) -> str:
    (found,) = spark.sql(f"SELECT md5('{number}') AS digest").collect()
    digest = found["digest"]
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))


def test_each_planted_fault_is_found_and_nothing_else(
    spark: "SparkSession", tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """One lost, one doubled, one resurrected, one reordered. What is small enough for SQLite is
    judged by it too; `--rows 1000000` is not.
    """
    messages = request.config.getoption("--rows") // 3
    # Even numbers are plain; the next message of an odd one's group is twice GROUPS further.
    lost, doubled, resurrected, reordered = (messages // 12 * 2 * n for n in (1, 2, 3, 4))
    reordered += 1
    missing = [f"ReceiveMessage-{lost}", f"DeleteMessage-{lost}", f"DeleteMessage-{doubled}"]
    again = received_again(spark, doubled, 0.5) + received_again(spark, resurrected, 9.0)
    trace, history = write_bulk(
        spark,
        tmp_path,
        messages,
        without=f"call IN {tuple(missing)}",
        planted=again,
        late=(reordered, 300),
    )
    with open_facts(spark, trace, history) as facts:
        verdict = verify(facts, history, tmp_path / "out")
        run = read_run(facts, tmp_path / "out" / "verdict.json") if is_small(history) else None
    assert found(verdict) == {
        "lost": (1, key_of(lost)),
        "doubled_in_window": (1, key_of(doubled)),
        "resurrected": (1, key_of(resurrected)),
        "fifo_sequence": (1, key_of(reordered + 2 * GROUPS)),
    }
    assert (verdict.word, verdict.exit_code) == ("violations", 1)
    stored = spark.read.parquet(str(tmp_path / "out" / "lost")).collect()
    assert [offence["key"] for offence in stored] == [key_of(lost)]
    assert not (tmp_path / "out" / "phantom").exists()
    if run is None:
        return
    with open_small(trace, history) as small:
        assert verify(small, history, tmp_path / "out") == verdict
        assert comparable(read_run(small, tmp_path / "out" / "verdict.json")) == comparable(run)


def found(verdict: Verdict) -> dict[str, tuple[int, str]]:
    return {
        finding.check: (finding.count, finding.examples[0]["key"])
        for finding in verdict.findings
        if finding.count
    }


def comparable(run: Run) -> dict[str, Any]:
    """Without quantiles, which Spark only estimates, and in one order."""

    def plain_rows(rows: Any) -> Any:
        if not isinstance(rows, list):
            return rows
        kept = [{k: v for k, v in item.items() if k not in QUANTILES} for item in rows]
        return sorted(kept, key=str)

    return {name: plain_rows(getattr(run, name)) for name in Run.__slots__ if name != "totals"}


@pytest.mark.long
def test_a_clean_history_passes(spark: "SparkSession", tmp_path: Path) -> None:
    trace, history = write_bulk(spark, tmp_path, 9_000)
    with open_small(trace, history) as small:
        verdict = verify(small, history, tmp_path)
    assert (verdict.word, verdict.exit_code) == ("clean", 0)
    assert verdict.counts["acknowledged"] == verdict.counts["deleted"] == 9_000
