"""Files of `--peer-tls-…`: what no member would accept is found before the node starts."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fastnode.errors import StartError
from fastnode.peers.tls import TlsFiles, load_tls
from fastnode.tls import name_in
from tests.certificates import files_of, flags_of, make_certificate, make_signer
from tests.nodes import refused_start


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    signer = make_signer(tmp_path_factory.mktemp("ours"))
    for node in (1, 2):
        make_certificate(signer, node)
    return signer


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_signer(tmp_path_factory.mktemp("theirs"))


def refusal(files: TlsFiles) -> str:
    with pytest.raises(StartError) as caught:
        load_tls(files)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_what_the_documentation_makes_is_good(ours: Path) -> None:
    loaded = load_tls(files_of(ours))
    assert loaded.certificate == (ours / "node1.pem").read_bytes()
    assert loaded.key == (ours / "node1.key").read_bytes()
    assert loaded.authority == (ours / "ca.pem").read_bytes()


def test_two_signers_in_one_file_are_both_trusted(ours: Path, theirs: Path, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes((theirs / "ca.pem").read_bytes() + (ours / "ca.pem").read_bytes())
    load_tls(files_of(ours)._replace(authority=str(both)))


@pytest.mark.parametrize("field", TlsFiles._fields)
def test_a_file_that_is_not_there(ours: Path, field: str) -> None:
    flag = {"certificate": "cert", "key": "key", "authority": "ca"}[field]
    text = refusal(files_of(ours)._replace(**{field: "nowhere"}))
    assert text == f"--peer-tls-{flag} nowhere: No such file or directory: give a readable file"


def test_a_directory_is_no_file(ours: Path) -> None:
    assert "Is a directory: give a readable file" in refusal(
        files_of(ours)._replace(certificate=str(ours))
    )


def test_a_key_that_others_can_read(ours: Path) -> None:
    files = make_certificate(ours, 3)
    Path(files.key).chmod(0o640)
    expected = f"--peer-tls-key {files.key} can be read by others: chmod 600 {files.key}"
    assert refusal(files) == expected


def test_files_that_were_mixed_up(ours: Path) -> None:
    files = files_of(ours)
    assert "holds no private key" in refusal(files._replace(key=files.certificate))
    assert "holds no certificate" in refusal(files._replace(certificate=files.key))
    assert "holds no certificate" in refusal(files._replace(authority=files.key))


def test_the_key_of_another_certificate(ours: Path) -> None:
    text = refusal(files_of(ours)._replace(key=files_of(ours, 2).key))
    assert text.endswith("node2.key do not belong together: give the key of it")


def damage(path: str, folder: Path) -> str:
    lines = Path(path).read_text().splitlines()
    copy = folder / Path(path).name
    copy.write_text("\n".join([lines[0], "AAAA", *lines[2:]]) + "\n")
    copy.chmod(0o600)
    return str(copy)


def test_files_that_were_damaged(ours: Path, tmp_path: Path) -> None:
    files = files_of(ours)
    text = refusal(files._replace(authority=damage(files.authority, tmp_path)))
    assert re.search(r"--peer-tls-ca .* is damaged: give a PEM file", text)
    for field in ("certificate", "key"):
        text = refusal(files._replace(**{field: damage(getattr(files, field), tmp_path)}))
        assert text.endswith("cannot be used: give whole PEM files, the key without a passphrase")


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(ours: Path, tmp_path: Path) -> None:
    locked, files = tmp_path / "locked.key", files_of(ours)
    command = ["openssl", "pkcs8", "-topk8", "-in", files.key, "-passout", "pass:1234", "-out"]
    subprocess.run([*command, str(locked)], check=True)
    assert "the key without a passphrase" in refusal(files._replace(key=str(locked)))


def of_another_signer(ours: Path, theirs: Path) -> TlsFiles:
    return files_of(ours)._replace(authority=str(theirs / "ca.pem"))


def of_the_signer_itself(ours: Path, _theirs: Path) -> TlsFiles:
    return files_of(ours)._replace(certificate=str(ours / "ca.pem"), key=str(ours / "ca.key"))


def expired(ours: Path, _theirs: Path) -> TlsFiles:
    return make_certificate(ours, 4, days=-1)


def for_accepting_only(ours: Path, _theirs: Path) -> TlsFiles:
    return make_certificate(ours, 5, use="serverAuth")


def for_dialling_only(ours: Path, _theirs: Path) -> TlsFiles:
    return make_certificate(ours, 6, use="clientAuth")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (of_another_signer, "unable to get local issuer certificate"),
        (of_the_signer_itself, "unsuitable certificate purpose"),
        (expired, "certificate has expired"),
        (for_accepting_only, "unsuitable certificate purpose"),
        (for_dialling_only, "unsuitable certificate purpose"),
    ],
)
def test_a_certificate_that_the_others_would_refuse(
    make: Callable[[Path, Path], TlsFiles], reason: str, ours: Path, theirs: Path
) -> None:
    files = make(ours, theirs)
    start = f"--peer-tls-cert {files.certificate} is not good for --peer-tls-ca {files.authority}: "
    assert refusal(files).startswith(f"{start}{reason}: give one that it has signed")


def test_a_certificate_without_a_host(ours: Path) -> None:
    assert refusal(make_certificate(ours, 7, "email:somebody@example.org")).endswith(
        "names no host: add this node's as subjectAltName, DNS:… or IP:…"
    )


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ((("email", "a@b"), ("DNS", "a"), ("IP Address", "10.0.0.1")), "a"),
        ((("IP Address", "10.0.0.1"),), "10.0.0.1"),
        ((("DNS", "*.cluster"),), "member.cluster"),
        ((), ""),
    ],
)
def test_a_peer_is_known_by_a_host_of_its_certificate(
    names: tuple[tuple[str, str], ...], name: str
) -> None:
    assert name_in({"subjectAltName": names}) == name
    assert name_in({}) == name_in(None) == ""


def test_a_node_with_a_wrong_certificate_leaves_no_directory_behind(
    ours: Path, theirs: Path, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    code, text = refused_start(data_dir, *flags_of(of_another_signer(ours, theirs)))
    assert code == 1
    assert text.startswith("fastnode: --peer-tls-cert ") and text.count("\n") == 1
    assert not data_dir.exists()
