"""A headless Chromium for the console, and nodes to look at. Without one, the tests say how to get
it and are skipped; `make browser` insists.

Every page fails its test if it logs an error, asks any other address than its node's, or runs a
script of a message.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pytest

from tests.nodes import ROOT, JsonClient, Node

if TYPE_CHECKING:
    from playwright.sync_api import (
        Browser,
        BrowserContext,
        ConsoleMessage,
        Dialog,
        Page,
        Request,
    )

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
HOW_TO_GET: Final = (
    "the console's tests need Chromium and Playwright: install the system's Chromium "
    "(apt install chromium), then run `make browser`, which installs the pinned Playwright"
)
SCREENSHOTS: Final = ROOT / "build" / "browser"
DESKTOP: Final = (1280, 900)
PHONE: Final = (390, 844)

Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def chromium() -> Iterator["Browser"]:
    program = next(filter(None, map(shutil.which, NAMES)), None)
    sync_api = pytest.importorskip("playwright.sync_api", reason=HOW_TO_GET)
    if program is None:
        pytest.skip(HOW_TO_GET)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with sync_api.sync_playwright() as playwright:
        # A container has no other user to run it as; what it opens is ours alone.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: "Browser") -> Iterator[Open]:
    """Opens a page of a node's console in a browser of its own."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def opened(
        node: Node,
        place: str = "#/",
        *,
        size: tuple[int, int] = DESKTOP,
        scheme: Literal["light", "dark"] = "light",
        tolerates: str = "",
    ) -> "Page":
        width, height = size
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)

        def complain(text: str) -> None:
            if not (tolerates and tolerates in text):
                complaints.append(text)

        def hear(message: "ConsoleMessage") -> None:
            if message.type == "error":
                complain(message.text)

        def refuse(dialog: "Dialog") -> None:
            complain(f"a dialog: {dialog.message}")
            dialog.dismiss()

        def watch(request: "Request") -> None:
            if not request.url.startswith(node.admin_url):
                complain(f"a request to {request.url}")

        page.on("console", hear)
        page.on("pageerror", lambda error: complain(str(error)))
        page.on("dialog", refuse)
        page.on("request", watch)
        page.goto(f"{node.admin_url}/console/{place}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    path: Path = tmp_path_factory.mktemp("console")
    with Node(path / "data") as node:
        yield node
        assert node.stop() == 0


@pytest.fixture
def client(node: Node) -> Iterator[JsonClient]:
    client = JsonClient(node.sqs_url)
    yield client
    client.close()


def queue_place(name: str, tab: str = "") -> str:
    place = f"#/queues/000000000000/us-east-1/{name}"
    return f"{place}/{tab}" if tab else place


def photograph(page: "Page", name: str) -> None:
    """For whoever wants to see it: build/browser."""
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
