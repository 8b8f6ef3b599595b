"""Which worker has which group, and how many workers there are. Pure."""

from fastnode.errors import UsageError


def owner_of(group: int, workers: int) -> int:
    return group % workers


def groups_of(worker: int, workers: int, groups: int) -> range:
    """The groups of a worker, in the order in which its log numbers them."""
    assert 0 <= worker < workers <= groups
    return range(worker, groups, workers)


def place_of(group: int, workers: int) -> int:
    """The number of a group in the log of its worker."""
    return group // workers


def sibling_id(worker: int) -> int:
    """By which name a worker is known to its siblings: never 0, which is nobody."""
    return worker + 1


def worker_count(wanted: int, cores: int, groups: int) -> int:
    """How many workers a node has that was asked for so many; 0 asks for one per core."""
    if wanted > groups:
        raise UsageError(
            f"--workers {wanted} is more than the node has groups to share, which are {groups}: "
            f"use --workers {groups}, or a new data directory with more --groups"
        )
    return wanted or max(1, min(cores, groups))
