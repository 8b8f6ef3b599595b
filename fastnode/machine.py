"""What a node has from the computer that it runs on: time, chance, engines, a log, disk space, and
the server by which members control each other. Shell.

Everything else of a node is the same code wherever it runs. The simulator has a machine of its own,
with a time, a disk and a network that it makes up.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fastnode.clock import Clock, IdSource, SystemClock, SystemIdSource
from fastnode.cluster.member import Member
from fastnode.cluster.membership import Membership
from fastnode.cluster.replication import Replication
from fastnode.datadir import DataDir
from fastnode.errors import StartError
from fastnode.raft.groups import Groups, Restored, open_groups
from fastnode.store.engine import EngineError, RocksEngine, StateEngine
from fastnode.store.engine_options import EngineShared
from fastnode.store.held_engine import HeldEngine
from fastnode.store.snapshot import Snapshot, take_snapshot
from fastnode.store.swap import recover_swap
from fastnode.upkeep import disk_space

if TYPE_CHECKING:
    from fastnode.cluster.control_plane import ControlPlane, Surroundings


class Machine:
    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self.ids: IdSource = SystemIdSource()

    def open_engines(self, data: DataDir) -> Sequence[StateEngine]:
        return open_engines(data, range(data.groups), EngineShared())

    def open_log(
        self,
        data: DataDir,
        *,
        applied: list[int],
        restored: list[Restored | None],
        is_synced: bool,
    ) -> Groups:
        return open_groups(
            data.node_id,
            data.log_path,
            voters=data.first_voters,
            applied=applied,
            restored=restored,
            is_synced=is_synced,
        )

    def take_snapshot(self, engine: StateEngine, group: int, group_path: Path) -> Snapshot:
        return take_snapshot(engine, group, group_path)

    def disk_space(self, path: Path) -> tuple[int, int]:
        return disk_space(path)

    def control_plane(
        self, around: "Surroundings", member: Member, membership: Membership, states: Replication
    ) -> "ControlPlane":
        """gRPC takes as much memory as the rest of an idle node, and a node that is alone has
        nobody to control: so it is loaded when it is first needed.
        """
        from fastnode.cluster.control_plane import ControlPlane

        return ControlPlane(around, member, membership, states)


def open_engines(data: DataDir, groups: Iterable[int], shared: EngineShared) -> list[HeldEngine]:
    engines: list[HeldEngine] = []
    try:
        for number in groups:
            recover_swap(data.group_path(number))
            engines.append(HeldEngine(RocksEngine(data.group_path(number), shared)))
    except EngineError as error:
        raise StartError(f"{error}: restore the data directory from a backup") from error
    return engines
