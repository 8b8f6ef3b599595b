"""`fastnode doctor`: each thing that can be wrong is said, with what to do."""

import socket
from pathlib import Path

import pytest

from fastnode.cli import doctor_checks as checks
from fastnode.cli.doctor import describe, examine
from fastnode.cli.doctor_checks import Finding, Verdict
from fastnode.option_values import Address
from fastnode.settings import Settings

GIB = 1 << 30


def test_a_wrong_configuration_is_found_and_the_rest_looked_at() -> None:
    first, *rest = examine({"groups": "none"}, None)
    assert first.verdict is Verdict.FAIL and "--groups must be" in first.seen
    assert len(rest) > 5


def test_a_taken_port_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        (found, *_) = checks.listeners(Settings(listen=address, admin=Address("127.0.0.1", 0)))
    assert found.verdict is Verdict.FAIL
    assert "in use" in found.seen and "--listen" in found.advice


def test_data_directories(tmp_path: Path) -> None:
    def look(path: Path) -> Finding:
        (found,) = checks.data_directory(Settings(data_dir=str(path)))
        return found

    assert look(tmp_path / "new").verdict is Verdict.OK
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    assert look(open_to_all).advice == f"chmod 700 {open_to_all}"
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    (foreign / "letter.txt").touch()
    assert look(foreign).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("free", "verdict"), [(1, Verdict.FAIL), (3, Verdict.WARN), (50, Verdict.OK)]
)
def test_disk_space_is_held_against_the_reserve(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, verdict: Verdict
) -> None:
    monkeypatch.setattr(checks, "disk_space", lambda _path: (free * GIB, 100 * GIB))
    assert checks._space(tmp_path).verdict is verdict


@pytest.mark.parametrize(
    ("milliseconds", "verdict"),
    [(0.001, Verdict.WARN), (0.5, Verdict.OK), (30.0, Verdict.WARN), (200.0, Verdict.FAIL)],
)
def test_a_slow_disk_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, milliseconds: float, verdict: Verdict
) -> None:
    monkeypatch.setattr(checks, "_sync_times", lambda _path: [milliseconds] * 3)
    assert checks._sync_time(tmp_path, Settings()).verdict is verdict
    assert checks._sync_time(tmp_path, Settings(fsync="never")).verdict is Verdict.WARN


def test_a_look_leaves_nothing_behind(tmp_path: Path) -> None:
    list(checks.disk(Settings(data_dir=str(tmp_path / "a" / "b"))))
    assert not list(tmp_path.iterdir())


def test_a_finding_says_what_to_do() -> None:
    finding = Finding("fsync", Verdict.WARN, "slow", "faster disk")
    assert describe(finding, is_coloured=False) == "warn  fsync: slow\n      -> faster disk\n"
    assert "\x1b[33m" in describe(finding, is_coloured=True)


def test_certificates_and_secrets_that_a_node_would_not_start_with(tmp_path: Path) -> None:
    settings = Settings(tls_cert=str(tmp_path / "none.pem"), tls_key=str(tmp_path / "none.key"))
    (found,) = checks.certificates(settings)
    assert found.verdict is Verdict.FAIL and "--tls-cert" in found.seen
    (found,) = checks.certificates(Settings(cluster_secret=str(tmp_path / "none")))
    assert found.verdict is Verdict.FAIL and "--cluster-secret" in found.seen
    assert list(checks.certificates(Settings())) == []
