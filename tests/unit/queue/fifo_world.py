"""FIFO queues in a world without sockets and time: short names for what tests do."""

from fastnode.queue import api
from tests.world import World

URL = "q.fifo"


class FifoWorld(World):
    def __init__(self, groups: int = 1, **attributes: str) -> None:
        super().__init__(groups=groups)
        self.create_fifo(URL, **attributes)
        self._numbers = iter(range(1_000_000))

    def create_fifo(self, name: str, **attributes: str) -> None:
        wanted = {"FifoQueue": "true", **attributes}
        self.call("CreateQueue", api.CreateQueueRequest(name, wanted))

    def put(self, group: str, *bodies: str, url: str = URL) -> list[api.SendMessageResponse]:
        return [self.put_one(group, body, f"d{next(self._numbers)}", url) for body in bodies]

    def put_one(
        self, group: str, body: str, dedup_id: str | None = None, url: str = URL
    ) -> api.SendMessageResponse:
        request = api.SendMessageRequest(
            url, body, message_group_id=group, message_deduplication_id=dedup_id
        )
        answer: api.SendMessageResponse = self.call("SendMessage", request)
        return answer

    def get(
        self, limit: int = 10, timeout: int = 30, url: str = URL, attempt: str | None = None
    ) -> list[api.Message]:
        request = api.ReceiveMessageRequest(
            url,
            attribute_names=["All"],
            max_number_of_messages=limit,
            visibility_timeout=timeout,
            receive_request_attempt_id=attempt,
        )
        messages: list[api.Message] = self.call("ReceiveMessage", request).messages
        return messages

    def got(self, limit: int = 10, timeout: int = 30, url: str = URL) -> list[str]:
        return [message.body for message in self.get(limit, timeout, url)]
