"""Links between the nodes of a `ClusterWorld`: calls, answers and cancels as queued frames.

Frames of one direction arrive in order, when the world delivers them. A link can be cut, with what
was not delivered counted as written or not; a direction can be held back. Nothing is doubled.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from fastnode.errors import DeadlineExceeded
from fastnode.peers.calls import CallCancelled, Handler, IncomingCall, LinkLost, OnDone, error_of
from fastnode.peers.handshake import Identity


class WorldLink:
    """The calls that one node makes to another, with the interface of a real link."""

    def __init__(self, peer: Identity, serve: Callable[[int], Handler], new_alarm: Any) -> None:
        self._peer = peer
        self._serve = serve
        self._new_alarm = new_alarm
        self._last = 0
        # Ours without an outcome: who is told, its alarm, and whether the peer has it.
        self._open: dict[int, OnDone] = {}
        self._alarms: dict[int, Any] = {}
        self._served: dict[int, IncomingCall] = {}
        self._frames: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._answers: deque[tuple[int, int, bytes]] = deque()
        self.is_held = False
        self.are_answers_held = False
        self.is_lost = False
        # Every call that arrived, by service.
        self.arrived: list[int] = []

    # --- what a caller sees ------------------------------------------------------------------

    def call(self, service: int, payload: bytes, seconds: float, on_done: OnDone) -> int:
        self._last += 1
        if self.is_lost:
            on_done(0, None, LinkLost("the link is gone", was_written=False))
            return self._last
        call_id = self._last
        self._open[call_id] = on_done
        self._frames.append((self._arrive, (call_id, service, bytes(payload))))
        alarm = self._alarms[call_id] = self._new_alarm()
        alarm.set(round(seconds * 1000), 0, lambda: self._expire(call_id))
        return call_id

    def cancel(self, call_id: int) -> None:
        self._give_up(call_id, CallCancelled("given up by its caller"))

    # --- what a service sees -----------------------------------------------------------------

    def answer(self, call: IncomingCall, status: int, payload: bytes) -> bool:
        if self.is_lost:
            return False
        self._served.pop(call.id, None)
        self._answers.append((call.id, status, bytes(payload)))
        return True

    # --- what a world does -------------------------------------------------------------------

    def deliver(self) -> bool:
        """Everything that is on its way and not held; False if there was nothing."""
        frames = 0 if self.is_held else len(self._frames)
        for _ in range(frames):
            arrive, content = self._frames.popleft()
            arrive(*content)
        answers = 0 if self.are_answers_held else len(self._answers)
        for _ in range(answers):
            # A cut may empty it meanwhile.
            if self._answers:
                self._finish(*self._answers.popleft())
        return bool(frames or answers)

    def lose(self, *, is_written: bool) -> None:
        """What the peer has, was written; of the rest the test says."""
        self.is_lost = True
        waiting, self._open = self._open, {}
        arrived = set(self._served) | {call_id for call_id, _, _ in self._answers}
        served, self._served = self._served, {}
        self._frames.clear()
        self._answers.clear()
        for call_id, on_done in waiting.items():
            self._alarms.pop(call_id).clear()
            was_written = is_written or call_id in arrived
            on_done(0, None, LinkLost("cut", was_written=was_written))
        for call in served.values():
            call.cancel()

    # --- frames ------------------------------------------------------------------------------

    def _arrive(self, call_id: int, service: int, payload: bytes) -> None:
        call = self._served[call_id] = IncomingCall(self, call_id, 0.0)
        self.arrived.append(service)
        self._serve(service)(self._peer, payload, call)

    def _arrive_cancel(self, call_id: int) -> None:
        call = self._served.pop(call_id, None)
        if call is not None:
            call.cancel()

    def _finish(self, call_id: int, status: int, payload: bytes) -> None:
        on_done = self._open.pop(call_id, None)
        if on_done is None:
            return  # it crossed our cancel
        self._alarms.pop(call_id).clear()
        error = error_of(status)
        on_done(status, None if error else payload, error)

    def _expire(self, call_id: int) -> None:
        self._give_up(call_id, DeadlineExceeded("the peer did not answer in time"))

    def _give_up(self, call_id: int, error: CallCancelled | DeadlineExceeded) -> None:
        on_done = self._open.pop(call_id, None)
        if on_done is None:
            return
        self._alarms.pop(call_id).clear()
        self._frames.append((self._arrive_cancel, (call_id,)))
        on_done(0, None, error)
