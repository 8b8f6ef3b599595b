"""What stands between this node and attempts under an identity that others have to know. Shell:
it looks at the members, sets `Gates` and writes changes to the log.

A member that does not know the identity of a call would carry out a repeated one again. So nothing
is repeated before every member has advertised `dedup`, by the handshake of its link: nobody can be
handed a call before that, and nobody can change its mind without a new one.

A member that is away keeps what it said last, across restarts of this node too. It leads nothing
meanwhile and is heard before it does, and the gates are needed most while somebody is away: were
they closed then, a call from before could not be recognised.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from fastnode.cluster.capabilities import DEDUP, Advertised
from fastnode.queue.retry import Gates


class Memory(Protocol):
    """Outlives the process."""

    def capable_peers(self, capability: str) -> frozenset[int]: ...
    def remember_capable(self, capability: str, nodes: frozenset[int]) -> None: ...


def capable_now(before: frozenset[int], advertised: Advertised) -> frozenset[int]:
    """The members that have the capability, as far as is known. Nobody else is kept in mind: the
    number of a member that is gone may come back as somebody else.
    """
    return frozenset(
        node
        for node, capabilities in advertised.items()
        if (node in before if capabilities is None else DEDUP in capabilities)
    )


class RetryGate:
    """`advertised` tells of the other members, as the cluster is now; `look` when it may tell
    something else. A node that is alone has nobody to wait for.
    """

    def __init__(
        self,
        gates: Gates,
        advertised: Callable[[], Advertised],
        memory: Memory,
        log: logging.Logger,
        *,
        repeats_calls: bool,
        recognises_retries: bool,
    ) -> None:
        self._gates = gates
        self._advertised = advertised
        self._memory = memory
        self._log = log
        self._repeats_calls = repeats_calls
        self._recognises_retries = recognises_retries
        self._capable = memory.capable_peers(DEDUP)
        # Who is missing, and whether it said so, when that was last logged.
        self._said: dict[int, bool] = {}
        self.look()

    def look(self) -> None:
        advertised = self._advertised()
        capable = capable_now(self._capable, advertised)
        if capable != self._capable:
            self._capable = capable
            self._memory.remember_capable(DEDUP, capable)
        missing = {
            node: capabilities is not None
            for node, capabilities in advertised.items()
            if node not in capable
        }
        self._gates.repeats_calls = self._repeats_calls and not missing
        self._gates.recognises_retries = self._recognises_retries and not missing
        if self._repeats_calls or self._recognises_retries:
            self._say(missing)

    def _say(self, missing: Mapping[int, bool]) -> None:
        """Once when the gates close, whenever another member turns out to lack it, and when they
        open; not while members come up one after the other.
        """
        said, self._said = self._said, dict(missing)
        if not missing and said:
            self._log.info("retries are deduplicated: every member knows them")
        elif missing and (not said or _deniers(missing) - _deniers(said)):
            words = {True: f"does not advertise {DEDUP}", False: "not heard yet"}
            reason = "; ".join(f"node {node}: {words[missing[node]]}" for node in missing)
            self._log.warning("retries are not deduplicated", extra={"reason": reason})


def _deniers(missing: Mapping[int, bool]) -> set[int]:
    return {node for node, has_said_so in missing.items() if has_said_so}
