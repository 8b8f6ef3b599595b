"""How fast traces are made: operations per second on two cores, files written, after one round that
warms the JVM.

`python -m bench.generate` (needs the `spark` extra); `--operations` and `--batches` say what of.
"""

import argparse
import shutil
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from pyspark.sql import SparkSession

from spark_load import session
from spark_load.generate import claim_directory, generate
from spark_load.plan import make_plan
from spark_load.workload import Workload, parse_workload

TARGET = 1_000_000
WORKLOAD = """
duration = "100s"
[queues.events]
kind = "fifo"
[streams.devices]
queue = "events"
arrivals = {{kind = "poisson", rate = {rate}}}
groups = {{count = 1000, skew = 1.0}}
size = {{kind = "lognormal", median = 400, sigma = 1.0, max = 20000}}
mix = {{SendMessage = 1, SendMessageBatch = {batches}}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=5_000_000)
    parser.add_argument("--batches", type=float, default=0.0, help="for each single send")
    parser.add_argument("--rounds", type=int, default=3)
    session.add_arguments(parser)
    parser.set_defaults(master="local[2]")
    options = parser.parse_args()
    text = WORKLOAD.format(rate=options.operations / 100, batches=options.batches)
    workload = parse_workload(tomllib.loads(text), "bench", Path())
    with session.session(options) as spark:
        rates = [one_round(spark, workload) for _ in range(1 + options.rounds)][1:]
    best, target = max(rates), f"target {TARGET:,}/s"
    print(f"generate: {best:,.0f} operations/s ({target}; rounds: {', '.join(map(str, rates))})")
    return 0


def one_round(spark: SparkSession, workload: Workload) -> int:
    folder = Path(tempfile.mkdtemp(prefix="fastnode-generate-"))
    try:
        claim_directory(folder, overwrite=True)
        begun = time.monotonic()
        header = generate(spark, workload, make_plan(workload), folder)
        return round(header.operations / (time.monotonic() - begun))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
