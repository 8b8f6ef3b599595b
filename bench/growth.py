"""What a send and a receive cost a node that has much of something, against one that has little.

Two nodes take turns on one core. A *dimension* says what one of them has more of: waiting messages,
messages that went through, messages in flight, queues. A probe sends messages one by one and then
receives and deletes as many, so that it leaves everything as it was; it is short and repeated, so
that a queue of 1,000 messages survives it.
"""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median

import msgspec

from bench.load import LoadError, Outcome
from bench.queue_load import BATCH, FILLING_CONNECTIONS, QueueLoad, signer_of
from bench.report import Line, ratio_line
from bench.rig import Rig
from bench.server_process import Server, ServerError, come_to_rest

# Waiting in every queue that is probed, so that no receive is in vain.
BASE = 1_000
PROBE_MESSAGES = 600
CONNECTIONS = 16
PROCESSED_AT_ONCE = 100_000
IN_FLIGHT_SECONDS = 43_200
RATIO_MAX = 1.15
PIPELINED = 100
PIPELINE_SECONDS_MAX = 60.0
FIGURES = ("send CPU", "send p50", "receive CPU", "receive p50")


class Cost(msgspec.Struct, frozen=True):
    """CPU microseconds of the node per message (its receive and delete together), and p50 of a
    SendMessage and a ReceiveMessage(10).
    """

    send_cpu_us: float
    send_p50_us: float
    receive_cpu_us: float
    receive_p50_us: float

    def over(self, other: "Cost") -> list[float]:
        """Each figure against the other's, in the order of `FIGURES`."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return [mine / theirs for mine, theirs in pairs]


class Point(msgspec.Struct, frozen=True):
    """One size of a dimension: what it costs there, and turns of its ratios to the smallest."""

    size: int
    cost: Cost
    ratios: list[list[float]]

    def ratio(self, figure: str) -> float:
        return median(self.turns(figure))

    def turns(self, figure: str) -> list[float]:
        return [turn[FIGURES.index(figure)] for turn in self.ratios]


class Dimension(msgspec.Struct, frozen=True):
    """Something a node may have much of; `grow` takes it from one size to a larger one."""

    name: str
    unit: str
    smallest: int
    sizes: tuple[int, ...]
    grow: Callable[[QueueLoad, int, int], None]


# --- probes --------------------------------------------------------------------------------------


def probe(queues: Sequence[QueueLoad]) -> list[Cost]:
    """Medians over short rounds, in which the queues take turns."""
    rounds: list[list[Cost]] = [[] for _ in queues]
    taken = [PROBE_MESSAGES] * len(queues)
    for _ in range(queues[0].rig.plan.probe_rounds):
        for place, queue in enumerate(queues):
            # As many as were taken come back, so that the depth stays what it is.
            sent = queue.send(taken[place], CONNECTIONS)
            received = queue.take(PROBE_MESSAGES, CONNECTIONS)
            taken[place] = received.groups[0].messages_deleted
            rounds[place].append(cost_of(sent, received))
    return [middle(each) for each in rounds]


def cost_of(sent: Outcome, received: Outcome) -> Cost:
    receives = received.groups[0].steps[0]
    return Cost(sent.server_cpu_us, sent.step.p50_us, message_cpu_us(received), receives.p50_us)


def middle(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    columns = zip(*map(msgspec.structs.astuple, costs), strict=True)
    return Cost(*(median(column) for column in columns))


def message_cpu_us(outcome: Outcome) -> float:
    return outcome.watched_cpu_s * 1e6 / max(1, outcome.groups[0].messages_deleted)


@contextmanager
def small_and_grown(rig: Rig, name: str) -> Iterator[tuple[QueueLoad, QueueLoad]]:
    """Both as small as they get."""
    name = name.replace(" ", "-")
    with rig.node(f"small-{name}") as small, rig.node(f"grown-{name}") as grown:
        queues = QueueLoad(rig, small), QueueLoad(rig, grown)
        for queue in queues:
            queue.fill(BASE)
        yield queues


def measure_growth(rig: Rig, dimension: Dimension, sizes: Sequence[int]) -> list[Point]:
    """One point per size, in growing order."""
    points = []
    with small_and_grown(rig, dimension.name) as (small, grown):
        now = dimension.smallest
        for size in sizes:
            if size > now:
                with rig.step(f"{dimension.name}: {size:,} {dimension.unit}"):
                    dimension.grow(grown, now, size)
                    come_to_rest(grown.node)
                now = size
            points.append(measure_point(rig, dimension, small, grown, size))
    return points


def measure_point(
    rig: Rig, dimension: Dimension, small: QueueLoad, grown: QueueLoad, size: int
) -> Point:
    costs, ratios = [], []
    for _ in rig.turns(f"{dimension.name}: {size:,} against {dimension.smallest:,}"):
        little, much = probe([small, grown])
        costs.append(much)
        ratios.append(much.over(little))
    return Point(size, middle(costs), ratios)


def growth_lines(dimension: Dimension, point: Point) -> list[Line]:
    """One line per figure."""
    cost = dict(zip(FIGURES, msgspec.structs.astuple(point.cost), strict=True))
    name = f"{dimension.name} {point.size:,} / {dimension.smallest:,}"
    return [
        ratio_line(f"{name}: {figure}", point.turns(figure), f"{us:.0f} µs", at_most=RATIO_MAX)
        for figure, us in cost.items()
    ]


# --- dimensions ----------------------------------------------------------------------------------


def add_waiting(queue: QueueLoad, now: int, size: int) -> None:
    queue.fill(size - now)


def process(queue: QueueLoad, now: int, size: int) -> None:
    """Send and delete, a part after the other; only what was deleted counts."""
    while now < size:
        queue.fill(min(PROCESSED_AT_ONCE, size - now))
        now += queue.empty().groups[0].messages_deleted
    queue.fill(BASE)


def hold(queue: QueueLoad, now: int, size: int) -> None:
    """Receive without deleting, until so many are in flight."""
    queue.fill(size - now)
    file = queue.path("hold")
    while (missing := size - in_flight(queue)) >= BATCH:
        members = {"MaxNumberOfMessages": BATCH, "VisibilityTimeout": IN_FLIGHT_SECONDS}
        file.write_bytes(queue.request("ReceiveMessage", 0, **members))
        before = in_flight(queue)
        queue.cycle([(CONNECTIONS, file)], missing // BATCH)
        if in_flight(queue) == before:
            raise LoadError(f"{before:,} messages are in flight and no more")


def in_flight(queue: QueueLoad) -> int:
    name = "ApproximateNumberOfMessagesNotVisible"
    answer = queue.call("GetQueueAttributes", AttributeNames=[name])
    attributes = msgspec.convert(answer["Attributes"], dict[str, str])
    return int(attributes[name])


def add_queues(queue: QueueLoad, now: int, size: int) -> None:
    """Queues beside the one that is probed, each with a message."""
    signer = signer_of(queue.node)
    names = [queue_name(number) for number in range(now, size)]
    pipeline(queue.node, [signer.request("CreateQueue", {"QueueName": name}) for name in names])
    urls = [queue_url(queue.node, name) for name in names]
    body = {"MessageBody": "x" * 200}
    pipeline(queue.node, [signer.request("SendMessage", {"QueueUrl": url} | body) for url in urls])


def queue_name(number: int) -> str:
    return f"many-{number:06d}"


def queue_url(node: Server, name: str) -> str:
    return f"http://{node.address}/000000000000/{name}"


def pipeline(node: Server, requests: Sequence[bytes]) -> None:
    """Each once, over one connection; all must succeed."""
    host, _, port = node.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PIPELINE_SECONDS_MAX) as connection:
        for begin in range(0, len(requests), PIPELINED):
            part = requests[begin : begin + PIPELINED]
            connection.sendall(b"".join(part))
            answers = b""
            while (answered := answers.count(b"HTTP/1.1 ")) < len(part) or not ends(answers):
                more = connection.recv(65_536)
                if not more:
                    raise ServerError(f"{node.address} hung up after {begin + answered} answers")
                answers += more
            if answers.count(b"HTTP/1.1 200 ") != len(part):
                raise ServerError(f"an answer other than 200 among {answers[:300]!r}")


def ends(answers: bytes) -> bool:
    """Whether the last answer is whole; its body is JSON of one line."""
    return answers.endswith(b"}")


BACKLOG = Dimension(
    "backlog", "messages waiting", BASE, (1_000, 10_000, 100_000, 1_000_000, 5_000_000), add_waiting
)
PROCESSED = Dimension(
    "processed", "messages processed", 0, (0, 100_000, 1_000_000, 10_000_000), process
)
IN_FLIGHT = Dimension("in flight", "messages in flight", 0, (0, 1_000, 10_000, 100_000), hold)
QUEUES = Dimension("queues", "queues", 1, (1, 100, 1_000, 10_000), add_queues)
DIMENSIONS = (BACKLOG, PROCESSED, IN_FLIGHT, QUEUES)


# --- load on all queues --------------------------------------------------------------------------


def measure_spread(rig: Rig, queues: int) -> list[Line]:
    """Sends and receives, one for each of many queues, against as many to one queue."""
    name = f"{queues:,} queues / 1, load spread over all"
    pairs: list[tuple[Cost, Cost]] = []
    with small_and_grown(rig, "spread") as (small, grown):
        with rig.step(name):
            add_queues(grown, 1, queues)
        urls = [grown.url] + [queue_url(grown.node, queue_name(n)) for n in range(1, queues)]
        for _ in rig.turns(name):
            pairs.append((one_each(grown, urls), one_each(small, [small.url] * queues)))
    ratios = [many.over(one) for many, one in pairs]
    return [
        ratio_line(f"{name}: {figure}", [turn[index] for turn in ratios], at_most=1.5)
        for index, figure in enumerate(FIGURES)
    ]


def one_each(queue: QueueLoad, urls: Sequence[str]) -> Cost:
    """A send to each and a receive of one message from each; the messages stay in flight."""
    receive = {"MaxNumberOfMessages": 1, "VisibilityTimeout": IN_FLIGHT_SECONDS}
    send = cycle_over(queue, "SendMessage", urls, {"MessageBody": "x" * 200})
    taken = cycle_over(queue, "ReceiveMessage", urls, receive)
    return Cost(send.server_cpu_us, p50_us(send), taken.server_cpu_us, p50_us(taken))


def p50_us(outcome: Outcome) -> float:
    return median(group.steps[0].p50_us for group in outcome.groups)


def cycle_over(
    queue: QueueLoad, action: str, urls: Sequence[str], members: Mapping[str, object]
) -> Outcome:
    """A file of its own for each connection, so that no queue is left out."""
    connections = min(FILLING_CONNECTIONS, len(urls))
    files = []
    signer = signer_of(queue.node)
    for number in range(connections):
        file = queue.path(f"{action}-{number}")
        requests = [
            signer.request(action, {"QueueUrl": url, **members}, 0)
            for url in urls[number::connections]
        ]
        file.write_bytes(b"".join(requests))
        files.append((1, file))
    return queue.cycle(files, len(urls))
