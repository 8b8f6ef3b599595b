"""What nodes hold of their groups, seen from outside and at once."""

from fastnode.store.keyspace import OUTBOX_PREFIX
from tests.model.spans import Violation
from tests.sim.cluster import SimCluster
from tests.sim.machine import SimHeldEngine


def are_letters_through(cluster: SimCluster) -> bool:
    """Nothing is left of messages that have changed queues."""
    engines = [one for group in range(cluster.groups) for one in _engines_of(cluster, group)]
    return not any(key.startswith(OUTBOX_PREFIX) for one in engines for key in one.rows())


def are_replicas_equal(cluster: SimCluster) -> bool:
    for group in range(cluster.groups):
        engines = _engines_of(cluster, group)
        if any(engine.rows() != engines[0].rows() for engine in engines):
            return False
    return True


def _engines_of(cluster: SimCluster, group: int) -> list[SimHeldEngine]:
    there = [one for one in cluster.nodes.values() if one.is_up and not one.is_lost]
    return [one.machine.engines[group] for one in there]


def check_kept_rows(cluster: SimCluster) -> None:
    """What a node keeps at hand of a state is what is stored, whatever is planned meanwhile."""
    for one in cluster.nodes.values():
        for group in one.node.groups if one.node is not None else ():
            kept = group.head_rows
            for rows in (kept.known, kept.sums.rows):
                for key, row in rows.items():
                    if (stored := group.get(key)) != row:
                        raise Violation(
                            f"node {one.number} takes {key!r} of group {group.number} for "
                            f"{row!r}, and it is {stored!r}"
                        )
