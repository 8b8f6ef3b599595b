"""A standard queue with tenants, and what is stored of it."""

from fastnode import native
from fastnode.queue import api
from fastnode.queue.standard_live import StandardQueue
from tests.world import ACCOUNT, REGION, World

LONG = 3_600


class FairWorld(World):
    def send_as(
        self, url: str, tenant: str | None, body: str, delay_seconds: int | None = None
    ) -> str:
        request = api.SendMessageRequest(url, body, delay_seconds, message_group_id=tenant)
        message_id: str = self.call("SendMessage", request).message_id
        return message_id

    def send_many(self, url: str, tenant: str | None, bodies: list[str]) -> None:
        for begin in range(0, len(bodies), 10):
            entries = [
                api.SendMessageBatchRequestEntry(str(n), body, message_group_id=tenant)
                for n, body in enumerate(bodies[begin : begin + 10])
            ]
            self.call("SendMessageBatch", api.SendMessageBatchRequest(url, entries))

    def bodies(self, url: str, limit: int = 10, timeout: int | None = None) -> list[str]:
        return [message.body for message in self.receive(url, limit, timeout)]

    def take_entry(self) -> bytes:
        """What was gathered is in the log and not yet applied."""
        entry = self.group.take_entry()
        assert entry is not None
        return entry

    def land(self, entry: bytes) -> None:
        self.logs[0].append(entry)
        self.group.commit(1 + len(self.logs[0]), 1, [entry])
        assert self.group.apply()

    def live(self, name: str = "q") -> StandardQueue:
        queue = self.service.find(ACCOUNT, REGION, name)
        assert isinstance(queue, StandardQueue)
        return queue

    def noisy(self, name: str = "q") -> set[str]:
        tenants = self.live(name).tenants
        return set() if tenants is None else set(tenants.shares.noisy)

    def filed(self, name: str = "q") -> set[tuple[str, int]]:
        """(tenant, position) of every row of the index."""
        keys = self.live(name).messages
        rows = self.live(name).group.scan_keys(keys.group, native.prefix_end(keys.group), 100_000)
        parsed = [native.parse_key(row).tail for row in rows]
        return {(str(tail[0]), int(tail[1]) << 16 | int(tail[2])) for tail in parsed}

    def heads(self, name: str = "q") -> dict[str, int]:
        """The first message of each tenant, by the rows that a restart reads."""
        keys = self.live(name).messages
        rows = self.live(name).group.scan(keys.ready, native.prefix_end(keys.ready), 100_000)
        return {tenant.decode(): keys.split_ready_key(key)[1] for key, tenant in rows}

    def mark(self, name: str = "q") -> int:
        queue = self.live(name)
        return int.from_bytes(queue.group.get(queue.messages.mark) or b"", "big")


def position_of(message_id: str) -> int:
    commit_ts, entry = native.message_id_position(bytes.fromhex(message_id.replace("-", "")))
    return commit_ts << 16 | entry


def numbered(name: str, count: int, first: int = 0) -> list[str]:
    return [f"{name}{number}" for number in range(first, first + count)]


def make_noisy(world: FairWorld, url: str, tenant: str = "loud", backlog: int = 100) -> None:
    """Thirty of its messages are in flight, and the backlog waits."""
    world.send_many(url, tenant, numbered(tenant, 30 + backlog))
    for _ in range(3):
        assert len(world.bodies(url, 10, LONG)) == 10
