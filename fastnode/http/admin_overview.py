"""The REST part of the admin listener that is about all queues, `/api/v1/overview`; and how
histories and rates look.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from fastnode import __version__
from fastnode.cluster.traffic import Everything, Report, Traffic
from fastnode.config import HISTORY_SLOT_SECONDS
from fastnode.http.admin_request import Answer, method_of, not_found, parameters_of
from fastnode.http.http1 import Request
from fastnode.http.identity import ACCOUNT_DEFAULT
from fastnode.queue.history import Name, Row

_SHOWN: Final = 10
_COLUMNS: Final = Row._fields
_PASSED: Final = _COLUMNS[:3]


class Rates(Struct, frozen=True):
    """Messages per second, over the last slot."""

    sent: float = 0.0
    received: float = 0.0
    removed: float = 0.0


def rates_of(row: Row | None) -> Rates:
    if row is None:
        return Rates()
    return Rates(*(round(count / HISTORY_SLOT_SECONDS, 2) for count in row[:3]))


def history_of(report: Report, columns: tuple[str, ...] = _COLUMNS) -> dict[str, object]:
    """Columns of numbers, oldest first; `newest_ms` is when the last slot began."""
    picked = {name: [row[at] for row in report.rows] for at, name in enumerate(columns)}
    return {
        "interval_seconds": HISTORY_SLOT_SECONDS,
        "newest_ms": report.newest * HISTORY_SLOT_SECONDS * 1_000,
        **picked,
        "passed": dict(zip(_PASSED, report.passed, strict=True)),
    }


class AdminOverview:
    """`answer` is what an `AdminApi` calls. `region` is that of queues that are created without."""

    def __init__(self, traffic: Traffic, region: str) -> None:
        self._traffic = traffic
        self._region = region

    def answer(self, request: Request, path: str) -> Answer:
        if path != "overview":
            raise not_found()
        method_of(request, "GET, HEAD")
        parameters_of(request)
        return self._show()

    async def _show(self) -> Any:
        known = await self._traffic.of_all()
        return {
            "version": __version__,
            "account": ACCOUNT_DEFAULT,
            "region": self._region,
            "stored": known.stored,
            "history": history_of(known.report, (*_PASSED, "stored")),
            "busiest": _busiest(known),
            "deepest": _deepest(known.deepest),
        }


def _busiest(known: Everything) -> list[dict[str, object]]:
    rows = sorted(known.latest.items(), key=lambda item: -sum(item[1][:3]))
    return [{**_named(name), "rates": rates_of(row)} for name, row in rows[:_SHOWN]]


def _deepest(deepest: Mapping[Name, int]) -> list[dict[str, object]]:
    rows = sorted(deepest.items(), key=lambda item: -item[1])
    return [{**_named(name), "stored": stored} for name, stored in rows[:_SHOWN]]


def _named(name: Name) -> dict[str, object]:
    account, region, queue = name
    return {"account": account, "region": region, "name": queue}
