"""What a node tells about its storage engines."""

from pathlib import Path

from fastnode.clock import GroupClock
from fastnode.node_metrics import disk_metrics
from fastnode.store.engine import RocksEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.group import Group
from tests.world import FakeClock


def test_the_cache_that_all_groups_share_is_counted_once(tmp_path: Path) -> None:
    shared = EngineShared(cache_bytes=4 << 20, write_buffer_bytes=8 << 20)
    engines = [RocksEngine(tmp_path / str(number), shared) for number in range(3)]
    for engine in engines:
        batch = engine.batch()
        for number in range(1_000):
            batch.put(b"%d" % number, b"x" * 200)
        engine.write(batch)
        engine.flush()
        assert engine.get(b"7") == b"x" * 200
    groups = [
        Group(number, engine, GroupClock(FakeClock())) for number, engine in enumerate(engines)
    ]
    told = disk_metrics(tmp_path, groups)
    cached = shared.metrics()["block_cache_bytes"]
    assert cached > 0
    assert told['fastnode_engine_bytes{kind="block_cache_bytes"}'] == cached
    tables = sum(engine.metrics()["table_bytes"] for engine in engines)
    assert told['fastnode_engine_bytes{kind="table_bytes"}'] == tables
    for engine in engines:
        engine.close()
