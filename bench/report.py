"""From slices to lines with target and verdict; pure, prints nothing.

Servers are measured in turns within one run, and a ratio is taken within each turn before the
median over the turns: the machine's own swings then touch both sides of each ratio.
"""

from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from bench.load import Outcome

# Above this share of its core the load generator may be what limits the faster server.
CLIENT_SHARE_MAX = 0.9


class Sample(msgspec.Struct, frozen=True):
    """One slice; the echo server has no fsyncs."""

    outcome: Outcome
    fsyncs: float | None = None


class Line(msgspec.Struct, frozen=True):
    """One figure; `at_least` or `at_most` is its target, neither means it is only reported. `turns`
    are the ratios whose median a figure is: such a figure can be compared with one of another day.
    """

    name: str
    value: float
    detail: str = ""
    at_least: float | None = None
    at_most: float | None = None
    turns: tuple[float, ...] = ()
    # Which way up a ratio without a target is.
    is_cost: bool = False

    @property
    def is_met(self) -> bool:
        """Whether no target is missed."""
        enough = self.at_least is None or self.value >= self.at_least
        return enough and (self.at_most is None or self.value <= self.at_most)

    @property
    def target(self) -> str:
        """The target as text."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"

    @property
    def verdict(self) -> str:
        """Met, missed, or nothing to say."""
        if not self.target:
            return ""
        return "met" if self.is_met else "MISSED"


Pick = Callable[[Sample], float]


def rate(sample: Sample) -> float:
    """Requests per second."""
    return sample.outcome.rate


def cpu_us(sample: Sample) -> float:
    """CPU microseconds of the server, all threads, per request."""
    return sample.outcome.server_cpu_us


def middle(samples: Sequence[Sample], pick: Pick) -> float:
    """The median over slices."""
    return median(pick(sample) for sample in samples)


def paired(above: Sequence[Sample], below: Sequence[Sample], pick: Pick) -> list[float]:
    """One ratio per turn."""
    return [pick(a) / pick(b) for a, b in zip(above, below, strict=True)]


def spread(ratios: Sequence[float]) -> str:
    """The range over the turns."""
    return f"turns {min(ratios):.2f} to {max(ratios):.2f}"


def ratio_line(
    name: str,
    ratios: Sequence[float],
    detail: str = "",
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    is_cost: bool = False,
) -> Line:
    """The median of one ratio per turn, with their range in the detail."""
    detail = f"{detail}, {spread(ratios)}" if detail else spread(ratios)
    is_cost = is_cost or at_most is not None
    return Line(name, median(ratios), detail, at_least, at_most, tuple(ratios), is_cost)


def send_lines(
    name: str, node: Sequence[Sample], echo: Sequence[Sample], *, at_least: float
) -> list[Line]:
    """Rate and CPU against the echo server, group size and latency of one SendMessage load."""
    rates = paired(node, echo, rate)
    costs = paired(echo, node, cpu_us)
    rate_detail = f"{middle(node, rate):,.0f}/s against {middle(echo, rate):,.0f}/s"
    cost_detail = f"{middle(node, cpu_us):.1f} µs against {middle(echo, cpu_us):.1f} µs"
    return [
        ratio_line(f"{name}: rate / echo", rates, rate_detail, at_least=at_least),
        ratio_line(f"{name}: CPU, echo / node", costs, cost_detail, at_least=at_least),
        fsync_line(name, node),
        latency_line(name, node, echo),
    ]


def batch_lines(
    name: str, node: Sequence[Sample], echo: Sequence[Sample], *, at_least: float
) -> list[Line]:
    """Messages that batches of ten store per request that the echo server answers; and per CPU
    time.
    """
    rates = [10 * ratio for ratio in paired(node, echo, rate)]
    costs = [10 * ratio for ratio in paired(echo, node, cpu_us)]
    detail = f"{10 * middle(node, rate):,.0f} messages/s"
    cost_detail = f"{middle(node, cpu_us) / 10:.1f} µs against {middle(echo, cpu_us):.1f} µs"
    return [
        ratio_line(f"{name}: messages / echo", rates, detail, at_least=at_least),
        ratio_line(f"{name}: CPU, echo / message", costs, cost_detail),
    ]


def fsync_line(name: str, node: Sequence[Sample]) -> Line:
    """How many requests one fsync serves."""
    answered = sum(sample.outcome.answered for sample in node)
    fsyncs = sum(sample.fsyncs or 0.0 for sample in node)
    return Line(f"{name}: requests / fsync", answered / max(1.0, fsyncs), f"{fsyncs:,.0f} fsyncs")


def latency_line(name: str, node: Sequence[Sample], echo: Sequence[Sample]) -> Line:
    """Medians of the slices' percentiles; the value is the node's p50 in milliseconds."""

    def p50(sample: Sample) -> float:
        return sample.outcome.step.p50_us / 1e3

    def p99(sample: Sample) -> float:
        return sample.outcome.step.p99_us / 1e3

    detail = f"p99 {middle(node, p99):.2f}; echo {middle(echo, p50):.2f}, {middle(echo, p99):.2f}"
    return Line(f"{name}: p50 ms", middle(node, p50), detail)


def client_line(name: str, echo: Sequence[Sample]) -> Line:
    """The load generator's own limit, seen against the faster server."""
    share = middle(echo, lambda sample: sample.outcome.client_share)
    limit = middle(echo, rate) / max(share, 1e-9)
    detail = f"of its core at echo's rate, so its limit is about {limit:,.0f}/s"
    return Line(f"{name}: client share", share, detail, at_most=CLIENT_SHARE_MAX)


def render(lines: Sequence[Line]) -> str:
    """The table as text."""
    width = max(len(line.name) for line in lines)
    rows = [
        f"{line.name:<{width}}  {line.value:>8.2f}  {line.target:>7}  {line.verdict:<6}  "
        f"{line.detail}".rstrip()
        for line in lines
    ]
    head = f"{'':<{width}}  {'measured':>8}  {'target':>7}"
    return "\n".join([head, *rows])
