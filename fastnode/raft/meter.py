"""What the metrics tell of the replicated log: how many transactions share an entry's way to the
disk, how long that takes, who leads. Taken once per group commit, not per transaction. Pure.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from fastnode.meter import Histogram, from_counts
from fastnode.raft.groups import LEADER

if TYPE_CHECKING:
    from fastnode.raft.groups import Status

_SIZE_ENDS: Final = 14
_CANDIDATE: Final = "candidate"
_SHOWN: Final = ("leader", "term", "commit", "applied", "last")


class RaftMeter:
    """Times are those of the oldest transaction that takes part: *gather* until an entry takes it,
    *log* until a majority has it on disk, *apply* until it is carried out and answered.
    """

    def __init__(self) -> None:
        self._sizes = Histogram(shift=0)
        self._stages = {name: Histogram() for name in ("gather", "log", "apply")}
        self._gathering_ns = 0
        self._proposed_ns = 0
        self._leaders: dict[int, int] = {}
        self._leader_changes = 0
        self._campaigns = 0

    def gathered(self, now_ns: int) -> None:
        """The first transaction that waits for an entry."""
        self._gathering_ns = now_ns

    def proposed(self, transactions: int, now_ns: int) -> None:
        if transactions:
            self._sizes.add(transactions)
            self._stages["gather"].add(now_ns - self._gathering_ns)
        if not self._proposed_ns:
            self._proposed_ns = now_ns

    def committed(self, now_ns: int) -> None:
        if self._proposed_ns:
            self._stages["log"].add(now_ns - self._proposed_ns)
            self._proposed_ns = 0

    def applied(self, began_ns: int, now_ns: int) -> None:
        self._stages["apply"].add(now_ns - began_ns)

    def changed(self, roles: Iterable[tuple[int, str, int, int]]) -> None:
        for group, role, _, leader in roles:
            self._campaigns += role == _CANDIDATE
            if leader and self._leaders.get(group, 0) != leader:
                self._leader_changes += 1
                self._leaders[group] = leader

    def metrics(self) -> dict[str, float]:
        found: dict[str, float] = {
            "fastnode_raft_leader_changes_total": self._leader_changes,
            "fastnode_raft_elections_total": self._campaigns,
        }
        found.update(self._sizes.samples("fastnode_commit_transactions", unit=1, ends=_SIZE_ENDS))
        for name, times in self._stages.items():
            found.update(times.samples("fastnode_stage_seconds", f'stage="{name}"'))
        return found


def status_metrics(status: "Status", numbers: Iterable[int]) -> dict[str, float]:
    """Of `Groups.status()`; `numbers` are the node's own names of its groups."""
    found: dict[str, float] = {
        "fastnode_log_fsyncs_total": status["fsyncs"],
        "fastnode_log_blocks_total": status["blocks"],
        "fastnode_log_bytes": status["log_bytes"],
        "fastnode_log_repaired_bytes": status["repaired_bytes"],
    }
    syncs = from_counts(status["sync_counts"], status["sync_ns"])
    found.update(syncs.samples("fastnode_log_sync_seconds"))
    for number, row in zip(numbers, status["groups"], strict=True):
        for name in _SHOWN:
            found[f'fastnode_raft_{name}{{group="{number}"}}'] = row[name]
        found[f'fastnode_raft_leads{{group="{number}"}}'] = int(row["role"] == LEADER)
        for peer, seen in row["peers"].items():
            lag = max(row["last"] - seen["match"], 0)
            found[f'fastnode_raft_peer_lag_entries{{group="{number}",peer="{peer}"}}'] = lag
    return found
