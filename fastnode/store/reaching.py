"""Who waits for a group's state to hold the entries up to an index. Pure."""

from fastnode import config
from fastnode.errors import Overloaded
from fastnode.flow import Suspension


class Reaching:
    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Suspension]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def wait(self, index: int, applied_index: int) -> Suspension:
        reaching = Suspension()
        if index <= applied_index:
            reaching.resume()
            return reaching
        if len(self._waiting) >= config.WAITING_READS_MAX:
            raise Overloaded("too many reads wait for the state to catch up")
        self._waiting.append((index, reaching))
        return reaching

    def release(self, applied_index: int) -> None:
        reached = [waiting for index, waiting in self._waiting if index <= applied_index]
        self._waiting = [one for one in self._waiting if one[0] > applied_index]
        for waiting in reached:
            waiting.resume()
