"""The console's files: all of them, nothing else, and under a policy that lets nothing in."""

import re

import pytest

from fastnode.http import console_pages
from fastnode.http.console_pages import POLICY
from tests.unit.http.admin_setup import AdminSetup

FOLDER = console_pages._FOLDER
NAMES = sorted(file.name for file in FOLDER.iterdir())


@pytest.fixture(scope="module")
def setup() -> AdminSetup:
    return AdminSetup()


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_served_as_what_it_is(setup: AdminSetup, name: str) -> None:
    status, head, body = setup.send(f"/console/{'' if name == 'index.html' else name}")
    assert status == 200 and body == (FOLDER / name).read_bytes()
    assert f"Content-Security-Policy: {POLICY.decode()}\r\n" in head
    assert "X-Content-Type-Options: nosniff" in head and "X-Frame-Options: DENY" in head
    kind = re.search("Content-Type: ([a-z/+]+)", head)
    wanted = {
        "html": "text/html",
        "js": "text/javascript",
        "css": "text/css",
        "svg": "image/svg+xml",
    }
    assert kind is not None and kind[1] == wanted[name.rpartition(".")[2]]


def test_the_address_alone_leads_to_the_console(setup: AdminSetup) -> None:
    for target in ("/", "/console"):
        status, head, _ = setup.send(target)
        assert status == 302 and "Location: /console/\r\n" in head


@pytest.mark.parametrize(
    "target",
    [
        "/console/../admin.py",
        "/console/../../settings.py",
        "/console/%2e%2e/admin.py",
        "/console/..%2fadmin.py",
        "/console//etc/passwd",
        "/console/./app.js",
        "/console/app.js/",
        "/console/app.js%00",
        "/console/index.html/../app.js",
        "/console/APP.JS",
        "/console/\\..\\admin.py",
        "/consoles",
        "/console.py",
        "/console/" + "a" * 5_000,
    ],
)
def test_no_path_leads_elsewhere(setup: AdminSetup, target: str) -> None:
    status, _, body = setup.send(target)
    assert status == 404 and body == b"not found\n"


def test_files_cannot_be_written(setup: AdminSetup) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert setup.send("/console/", method=method)[0] == 405


def test_the_policy_allows_no_inline_code_and_no_other_place() -> None:
    policy = POLICY.decode()
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    for word in ("unsafe", "data:", "http:", "https:", "*"):
        assert word not in policy


@pytest.mark.parametrize("name", NAMES)
def test_files_ask_nobody_else_and_parse_no_html(name: str) -> None:
    text = (FOLDER / name).read_text()
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "outside requests"
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "srcdoc",
    ):
        assert word not in text, word
    if name.endswith(".html"):
        assert not re.search(r"\son\w+=|style=|<script(?![^>]* src=)", text), "inline code or style"
