"""The log of one worker, for those who know groups by the numbers that the node gives them."""

from collections.abc import Sequence

from fastnode.raft.groups import Groups


class OwnLog:
    """`log` numbers the groups that it has from 0 on."""

    def __init__(self, groups: Sequence[int], log: Groups) -> None:
        self.log = log
        self.log_bytes = log.log_bytes
        self._places = {number: place for place, number in enumerate(groups)}

    def compact(self, group: int, index: int) -> None:
        self.log.compact(self._places[group], index)
