"""Takes a call to whoever leads a group, and waits for a leader while there is none.

A leader that says it does not lead has done nothing, so the call goes on to the next one. A call
that was sent and never answered may have taken effect: whoever asked is told so, and it is not sent
again.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from fastnode import config
from fastnode.cluster.breaker import Breaker
from fastnode.cluster.call_codec import FAILED, decode_error
from fastnode.errors import (
    DeadlineExceeded,
    NotLed,
    OperationError,
    Overloaded,
    Unavailable,
    Unsettled,
)
from fastnode.flow import Suspension
from fastnode.peers.calls import Asked, CallCancelled, Caller, LinkLost
from fastnode.queue.caller import Call
from fastnode.queue.long_poll import Alarm
from fastnode.store.group import Group

# Services of a link, by number.
FORWARDED: Final = 1
PARTS: Final = 2
MEMBERS: Final = 3
CONTROL: Final = 4
_RETRY_MS: Final = 50
_WAITING_MAX: Final = 16_384


class Left(CallCancelled):
    """A call left after it was sent: by which link, to the leader of which term. Its answer may be
    on its way.
    """

    def __init__(self, link: Caller, term: int) -> None:
        super().__init__("nobody waits for the answer")
        self.link = link
        self.term = term


class Links(Protocol):
    def link_to(self, node: int) -> Caller | None: ...


class Courier:
    """`now` is any clock in seconds that never goes back."""

    def __init__(self, node_id: int, links: Links, now: Callable[[], float], alarm: Alarm) -> None:
        self._node_id = node_id
        self._links = links
        self._now = now
        self._alarm = alarm
        self._breakers: dict[int, Breaker] = {}
        self._waiting: list[Suspension] = []
        # Since when a group's leader cannot be reached, and the group's term then.
        self._lost_at: dict[int, tuple[int, float]] = {}

    def look_again(self) -> None:
        """A leader has changed, or a link is up: whoever waits for that may try again."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            _resume(one)

    async def carry(
        self, group: Group, service: int, payload: bytes, call: Call | None = None
    ) -> tuple[int, bytes]:
        """Status and payload of the leader's answer. `NotLed`: this node leads the group.
        `CallCancelled`: the call has left; `Left` if it had been sent.
        """
        began, patience = self._now(), 0.0
        while not group.takes_calls:
            if call is not None and call.is_gone:
                raise CallCancelled("nobody waits for the answer")
            link, leadership = self._link(group), (group.leader, group.term)
            if link is not None:
                self._lost_at.pop(group.number, None)
                answer = await self._ask(group, link, service, payload, call)
                if answer is not None:
                    return answer
                if leadership != (group.leader, group.term):
                    continue
            patience = patience or self._patience(group)
            if self._now() >= began + patience:
                raise Unavailable("no leader of the queue's group can be reached")
            await self._wait(call)
        raise NotLed("this node leads the group")

    def _link(self, group: Group) -> Caller | None:
        if group.leader in (0, self._node_id):
            return None
        return self._links.link_to(group.leader)

    def _patience(self, group: Group) -> float:
        """An election is worth waiting for; a group that has had no leader for long is not."""
        now = self._now()
        term, lost_at = self._lost_at.get(group.number, (group.term, now))
        if term != group.term:
            lost_at = now
        self._lost_at[group.number] = group.term, lost_at
        is_electing = now - lost_at < config.ELECTION_WAIT_SECONDS
        return config.ELECTION_WAIT_SECONDS if is_electing else config.NO_LEADER_WAIT_SECONDS

    async def _ask(
        self, group: Group, link: Caller, service: int, payload: bytes, call: Call | None
    ) -> tuple[int, bytes] | None:
        """None: nothing was done there, and somebody else may be the leader by now."""
        breaker = self._breakers.get(group.number)
        if breaker is None:
            breaker = self._breakers[group.number] = Breaker()
        era = breaker.admit((group.leader, group.term), self._now())
        if era is None:
            raise Unavailable("the leader of the queue's group does not answer")
        term = group.term
        asked = Asked(link, service, payload, config.FORWARD_SECONDS)
        if call is not None:
            call.on_gone = asked.cancel
        try:
            status, answer = await asked
        except (LinkLost, DeadlineExceeded) as failure:
            breaker.settle(era, self._now(), is_failure=True)
            if isinstance(failure, LinkLost) and not failure.was_written:
                return None
            raise Unsettled(f"the leader did not answer: {failure}") from failure
        except CallCancelled as cancelled:
            breaker.withdraw(era)
            raise Left(link, term) from cancelled
        except OperationError:
            breaker.withdraw(era)
            raise
        finally:
            if call is not None:
                call.on_gone = None
        breaker.settle(era, self._now(), is_failure=False)
        if status == FAILED and isinstance(decode_error(status, answer), NotLed):
            return None
        return status, answer

    async def _wait(self, call: Call | None) -> None:
        """Until something changes, or a moment has passed: a leader that is not ready yet will not
        say when it is.
        """
        if len(self._waiting) >= _WAITING_MAX:
            raise Overloaded("too many calls wait for a leader")
        waiting = Suspension()
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            self._alarm.set(_RETRY_MS, 0, self.look_again)
        if call is not None:
            call.on_gone = partial(_resume, waiting)
        await waiting
        if call is not None:
            call.on_gone = None


def _resume(waiting: Suspension) -> None:
    if not waiting.is_done:
        waiting.resume()
