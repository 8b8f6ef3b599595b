"""The comparison with other servers still works: no network, no toolchain of theirs.

A node that verifies nothing stands in for a peer; figures are not judged.
"""

import sys
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from bench import machine, peer_report, peer_servers, peers
from bench.peer_report import Cell, Comparison, Entrant, Line
from bench.peer_servers import Peer, PeerMissing
from bench.rig import Plan
from bench.server_process import ServerError

TINY = Plan(turns=1, slice_seconds=0.1, warmup_seconds=0.05, scale=0.002)


def shell_peer(script: str, *, name: str = "stand-in", tool: str = "sh") -> Peer:
    """A peer that is fetched by a shell script, and is a node of ours."""

    def start(home: Path, port: int) -> list[str]:
        ports = ["--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0", "--raft", "127.0.0.1:0"]
        data = str(home / "data")
        return [sys.executable, "-m", "fastnode", "run", "--data-dir", data, *ports]

    return Peer(name, "1.2.3", "Shell", (tool,), ("goaws.yaml",), ("sh", "-c", script), start)


# --- versions ------------------------------------------------------------------------------------


def test_every_peer_has_an_exact_version() -> None:
    versions = [[int(part) for part in peer.version.split(".")] for peer in peer_servers.PEERS]
    assert [len(version) for version in versions] == [3, 3, 3]


def test_a_range_of_versions_is_not_a_pin() -> None:
    assert peer_servers.npm_version('{"dependencies": {"a": "1.2.3"}}', "a") == "1.2.3"
    with pytest.raises(AssertionError, match="not pinned"):
        peer_servers.npm_version('{"dependencies": {"a": "^1.2.3"}}', "a")


def test_a_go_version_is_that_of_the_whole_module_name() -> None:
    module = "require (\n\ty.org/x.org/a v4.0.0\n\tx.org/a/b v2.0.0\n\tx.org/a v1.0.0\n)"
    assert peer_servers.go_version(module, "x.org/a") == "1.0.0"
    assert peer_servers.go_version("require x.org/a v3.0.1", "x.org/a") == "3.0.1"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "17.0.15"),
        ("go version go1.26 linux/amd64", "1.26"),
        ("", "of unknown version"),
    ],
)
def test_the_version_of_a_runtime_is_read_from_what_it_says(text: str, version: str) -> None:
    assert peers.first_version(text) == version


# --- fetching and starting -----------------------------------------------------------------------


def test_a_peer_is_fetched_once_for_each_pin(tmp_path: Path) -> None:
    for script in ("echo a >> said", "echo a >> said", "echo b >> said"):
        home = peer_servers.fetch(shell_peer(script), tmp_path)
    assert (home / "said").read_text() == "a\nb\n"
    assert (home / "goaws.yaml").exists()


def test_a_changed_file_makes_another_pin() -> None:
    peer = shell_peer(":")
    other = msgspec.structs.replace(peer, files=("go.mod",))
    assert peer.digest() != other.digest()


def test_a_failed_fetch_says_why_and_is_tried_again(tmp_path: Path) -> None:
    failing = shell_peer("echo no such version >&2; exit 1")
    for _ in range(2):
        with pytest.raises(PeerMissing, match="sh could not fetch it: no such version"):
            peer_servers.fetch(failing, tmp_path)


def test_a_peer_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    peer = msgspec.structs.replace(
        shell_peer(":"), start=lambda home, port: ["sh", "-c", "echo out of luck; exit 3"]
    )
    with (
        pytest.raises(ServerError, match="with 3: out of luck"),
        peer_servers.running(peer, tmp_path, None),
    ):
        pass


# --- the report ----------------------------------------------------------------------------------


def entrant(name: str, problem: str | None = None) -> Entrant:
    return Entrant(name, "1.0.0", "Somewhere", "in memory", "none", "no", problem)


@pytest.fixture
def comparison() -> Comparison:
    echo = Cell(ratios=[1.0], cpu_us=[20.0], client_shares=[0.4])
    sends = {
        "ours": Cell(ratios=[0.3, 0.5, 0.4], cpu_us=[50.0], client_shares=[0.25]),
        "theirs": Cell(ratios=[0.04], cpu_us=[400.0], notes=["9 of 10 in 60 s"]),
    }
    drains = {"ours": Cell(problem="409 Conflict"), "theirs": Cell(ratios=[2.0], cpu_us=[8.0])}
    return Comparison(
        measured_at=datetime(2026, 1, 2, tzinfo=UTC),
        machine=machine.describe(Path("/")),
        plan=Plan(),
        entrants=[entrant("ours"), entrant("theirs"), entrant("absent", "mvn is not installed")],
        lines=[Line("send", "sends", echo, sends), Line("drain", "drains", echo, drains)],
    )


def test_the_best_of_a_row_is_bold_also_where_it_is_not_ours(comparison: Comparison) -> None:
    page = peer_report.markdown(comparison, "peers.svg")
    assert "| sends | **0.40** | 0.040 † |" in page
    assert "| drains | failed | **2.00** |" in page
    assert "| sends | **50.0** | 400 † | 20.0 |" in page


def test_what_is_missing_failed_or_was_cut_short_is_said(comparison: Comparison) -> None:
    for text in (peer_report.markdown(comparison, "peers.svg"), peer_report.render(comparison)):
        assert "absent was not run: mvn is not installed" in text
        assert "drains: ours failed: 409 Conflict" in text
        assert "† sends: theirs: 9 of 10 in 60 s" in text
    assert "at most 0.40 of its core" in peer_report.markdown(comparison, "peers.svg")


def test_the_chart_has_a_bar_for_each_figure_and_a_word_for_each_failure(
    comparison: Comparison,
) -> None:
    chart = peer_report.chart(comparison)
    texts = [element.text for element in ElementTree.fromstring(chart).iter() if element.text]
    assert {"sends", "drains", "ours 1.0.0", "theirs 1.0.0", "failed"} <= set(texts)


# --- all of it -----------------------------------------------------------------------------------


def test_a_peer_is_measured_beside_us_and_a_missing_one_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entered = [shell_peer(":"), shell_peer(":", name="absent", tool="no-such-tool")]
    arguments = ["--short", "--data-under", str(tmp_path), "--json", str(tmp_path / "peers.json")]
    chosen = ["--rows", "send,drain,fifo-send,fifo-drain"]
    assert peers.main([*arguments, *chosen], peers=entered, plan=TINY) == 0
    found = msgspec.json.decode((tmp_path / "peers.json").read_bytes(), type=Comparison)
    assert [line.key for line in found.lines] == ["send", "drain", "fifo-send", "fifo-drain"]
    cells = [cell for line in found.lines for cell in line.cells.values()]
    assert len(cells) == 8
    assert all(cell.problem is None and not cell.notes for cell in cells)
    assert all((cell.ratio or 0) > 0 and (cell.cpu or 0) > 0 for cell in cells)
    assert "absent was not run: no-such-tool is not installed" in capsys.readouterr().out
    assert "![" in (tmp_path / "peers.md").read_text()
    assert (tmp_path / "peers.svg").exists()


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--only", "nobody"], ["--rows", "send,nothing"]):
        with pytest.raises(SystemExit):
            peers.main(arguments)
    assert "nothing is none of send" in capsys.readouterr().err
