"""The report of a replay in a browser: it opens from a file with nothing else around it, asks for
nothing, and fits a desktop and a phone.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_load.report.page import page as page_of
from tests.browser.conftest import DESKTOP, PHONE, photograph
from tests.spark.test_report import a_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LONG_NAMES = {
    "endpoints": [{"endpoint": "http://10.200.100.101:9324", "calls": 9, "p50": 900, "p99": 9000}],
    "tenants": [{"tenant": "customer-" + "0123456789" * 5, "calls": 9, "p50": 900, "p99": 9000}],
}
TOO_WIDE = """
() => [...document.querySelectorAll("svg, table, h1, h2, p")]
  .filter((part) => part.getBoundingClientRect().right > innerWidth + 1)
  .map((part) => part.outerHTML.slice(0, 80))
"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("runs", [1, 2])
def test_a_report_opens_offline_and_fits(
    chromium: "Browser", tmp_path: Path, size: tuple[int, int], runs: int
) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of([a_run(**LONG_NAMES)] * runs), encoding="utf-8")
    width, height = size
    context = chromium.new_context(viewport={"width": width, "height": height}, offline=True)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    photograph(page, f"report-{runs}-{width}")
    assert page.locator("svg").count() >= 8 * runs
    assert "leader killed" in (page.locator("svg").first.text_content() or "")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(TOO_WIDE) == []
    assert (complaints, asked) == ([], [path.as_uri()])
    context.close()
