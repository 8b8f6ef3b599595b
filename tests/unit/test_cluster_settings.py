"""Settings of a cluster: its members, whom to join, what has to be secret."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.errors import UsageError
from fastnode.option_values import Address
from fastnode.settings import load_settings


def refusal(flags: dict[str, str]) -> str:
    with pytest.raises(UsageError) as caught:
        load_settings(flags, {})
    return str(caught.value)


PEERS = "1=127.0.0.1:7001,2=127.0.0.1:7002,3=127.0.0.1:7003"


def test_members_are_named_in_any_order_and_stored_in_one() -> None:
    loaded = load_settings({"peers": " 3=127.0.0.1:7003, 1=127.0.0.1:7001,2=[::1]:7002"}, {})
    assert loaded.peers == "1=127.0.0.1:7001,2=[::1]:7002,3=127.0.0.1:7003"
    assert loaded.peer_addresses == {
        1: Address("127.0.0.1", 7001),
        2: Address("::1", 7002),
        3: Address("127.0.0.1", 7003),
    }


def test_a_member_listens_where_the_others_look_for_it_unless_told_otherwise() -> None:
    assert load_settings({"peers": PEERS, "node_id": "2"}, {}).raft == Address("127.0.0.1", 7002)
    told = load_settings({"peers": PEERS, "node_id": "2", "raft": "127.0.0.1:9"}, {})
    assert told.raft == Address("127.0.0.1", 9)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("127.0.0.1:1", "must be NODE=HOST:PORT for every member, with commas between them"),
        ("1=a:1,", "must be NODE=HOST:PORT for every member, with commas between them"),
        ("1 = a:1", "must be NODE=HOST:PORT for every member, with commas between them"),
        ("x=a:1", "must be NODE=HOST:PORT for every member, with commas between them"),
        ("٣=a:1", "must be NODE=HOST:PORT for every member, with commas between them"),
        ("-1=a:1", "must be NODE=HOST:PORT for every member, with commas between them"),
        ("123456=a:1", "must be NODE=HOST:PORT for every member, with commas between them"),
        ("0=a:1", "must name each node once, by a number from 1 to 65535"),
        ("65536=a:1", "must name each node once, by a number from 1 to 65535"),
        ("1=a:1,1=b:1", "must name each node once, by a number from 1 to 65535"),
        ("1=a:1,01=b:1", "must name each node once, by a number from 1 to 65535"),
        ("1=a", "must be HOST:PORT with a port from 0 to 65535"),
        ("1=http://a:1", "must be HOST:PORT"),
        ("1=a:0", "must name the ports at which members reach each other"),
        ("1=a:1,2=a:1", "must name another address for each node"),
    ],
)
def test_a_wrong_list_of_members_is_refused_with_the_reason(text: str, problem: str) -> None:
    message = refusal({"peers": text})
    assert message.startswith(f"--peers {problem}") and message.endswith(f", not {text!r}")


def test_a_member_is_among_the_members() -> None:
    assert refusal({"peers": PEERS, "node_id": "4"}) == (
        "--peers does not name node 4: add it, or say by --node-id which of them this one is"
    )


def test_a_cluster_is_begun_or_entered_and_not_both() -> None:
    assert refusal({"peers": PEERS, "join": "127.0.0.1:1"}) == (
        "--peers begins a cluster and --join enters one: give only one of them"
    )


@pytest.mark.parametrize("text", ["a", "a:x", "http://a:1", "::1:5", "1=a:1/"])
def test_whom_to_join_is_an_address(text: str) -> None:
    assert refusal({"join": text}).startswith("--join must be HOST:PORT")


def test_whom_to_join_has_a_port() -> None:
    assert load_settings({"join": "[::1]:5"}, {}).join == "[::1]:5"
    assert refusal({"join": "a:0"}) == (
        "--join must name the port at which the member is reached, not 'a:0'"
    )


PUBLIC = {"insecure": "true"}


@pytest.mark.parametrize(
    "flags",
    [
        {"peers": "1=10.0.0.1:7,2=127.0.0.1:8"},
        {"peers": "1=127.0.0.1:7,2=node2:8"},
        {"join": "127.0.0.1:8", "raft": "0.0.0.0:7"},
    ],
)
def test_members_beyond_loopback_need_a_secret(flags: dict[str, str]) -> None:
    message = refusal(flags | PUBLIC)
    assert "must prove who they are: give --cluster-secret a file, the same for all" in message
    assert load_settings(flags | PUBLIC | {"cluster_secret": "s"}, {}).cluster_secret == "s"


def test_whom_to_join_beyond_loopback_needs_a_secret() -> None:
    message = refusal({"join": "10.0.0.1:8"} | PUBLIC)
    assert message.startswith("members at 10.0.0.1:8 must prove who they are")


def test_members_on_loopback_need_no_secret() -> None:
    assert load_settings({"peers": PEERS}, {}).cluster_secret == ""
    assert load_settings({"join": "localhost:8"}, {}).join == "localhost:8"


def test_a_node_that_is_alone_needs_no_secret_wherever_it_listens() -> None:
    assert load_settings({"raft": "0.0.0.0:7"} | PUBLIC, {}).raft.host == "0.0.0.0"


def test_members_beyond_loopback_need_consent() -> None:
    secret = {"cluster_secret": "s"}
    message = refusal({"peers": "1=10.0.0.1:7,2=10.0.0.2:7"} | secret)
    assert message.startswith("--raft 10.0.0.1:7 is not loopback")
    assert "--credentials" not in message


TLS = {"peer_tls_cert": "c", "peer_tls_key": "k", "peer_tls_ca": "a"}


@pytest.mark.parametrize("source", ["flags", "environment", "file"])
def test_certificates_come_from_every_source(source: str, tmp_path: Path) -> None:
    file = tmp_path / "fastnode.toml"
    file.write_text("".join(f'{key} = "{value}"\n' for key, value in TLS.items()))
    variables = {f"FASTNODE_{key.upper()}": value for key, value in TLS.items()}
    loaded = {
        "flags": lambda: load_settings(TLS, {}),
        "environment": lambda: load_settings({}, variables),
        "file": lambda: load_settings({}, {}, config=str(file)),
    }[source]()
    assert (loaded.peer_tls_cert, loaded.peer_tls_key, loaded.peer_tls_ca) == ("c", "k", "a")


@pytest.mark.parametrize("given", sorted(TLS))
def test_certificate_key_and_signer_are_given_together(given: str) -> None:
    flags = ["--" + field.replace("_", "-") for field in TLS if field != given]
    together = "--peer-tls-cert, --peer-tls-key and --peer-tls-ca are given together or not"
    assert refusal({given: "file"}) == f"{together}: add {' and '.join(flags)}"
    all_but_one = {field: value for field, value in TLS.items() if field != given}
    assert refusal(all_but_one).endswith(f": add --{given.replace('_', '-')}")


@pytest.mark.parametrize("field", sorted(TLS))
def test_certificates_are_paths(field: str) -> None:
    assert "must be the path of a file" in refusal(TLS | {field: "\0"})


def test_members_with_certificates_need_neither_a_secret_nor_consent() -> None:
    loaded = load_settings({"peers": "1=10.0.0.1:7,2=node2:7"} | TLS, {})
    assert loaded.open_to_network == [] and not loaded.insecure
    assert load_settings({"join": "10.0.0.1:8", "raft": "0.0.0.0:7"} | TLS, {}).join


@pytest.mark.parametrize("field", ["listen", "admin"])
def test_certificates_of_members_guard_no_other_listener(field: str) -> None:
    message = refusal({field: "0.0.0.0:7"} | TLS)
    assert message.startswith(f"--{field} 0.0.0.0:7 is not loopback")
    assert "--peer-tls-cert" not in message


def test_consent_or_certificates_are_proposed() -> None:
    message = refusal({"raft": "0.0.0.0:7"})
    assert "add --insecure if the network is yours, or give --peer-tls-cert" in message


def test_the_secret_is_a_path() -> None:
    assert "--cluster-secret must be the path of a file" in refusal({"cluster_secret": "\0"})


@pytest.mark.parametrize(
    ("text", "host"), [("", ""), ("node2", "node2"), ("10.0.0.1", "10.0.0.1"), ("[::1]", "::1")]
)
def test_a_node_may_be_known_by_another_name(text: str, host: str) -> None:
    assert load_settings({"advertise": text}, {}).advertise == host


@pytest.mark.parametrize("text", ["a:80", "::1", "http://a", "a b", "[a]", ":", "[", "a/b"])
def test_the_name_of_a_node_is_no_address_with_a_port(text: str) -> None:
    assert refusal({"advertise": text}) == (
        "--advertise must be a host name or an address, IPv6 in brackets as in [::1], "
        f"without a port, not {text!r}"
    )


def test_the_listener_of_members_shares_no_address() -> None:
    assert refusal({"raft": "127.0.0.1:9324"}) == (
        "--listen and --raft are both 127.0.0.1:9324: give one another port"
    )
    assert "--admin and --raft are both" in refusal({"peers": "1=127.0.0.1:9325"})


@settings(deadline=None)
@given(st.text("0123456789=:,.[]a ", max_size=40))
def test_any_text_is_a_list_of_members_or_refused(text: str) -> None:
    try:
        loaded = load_settings({"peers": text, "insecure": "true", "cluster_secret": "s"}, {})
    except UsageError:
        return
    again = {"peers": loaded.peers, "insecure": "true", "cluster_secret": "s"}
    assert load_settings(again, {}).peer_addresses == loaded.peer_addresses


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({}, "http://10.0.0.9:9324"),
        ({"advertise": "queue.example"}, "http://queue.example:9324"),
        ({"advertise": "[fd00::7]"}, "http://[fd00::7]:9324"),
    ],
)
def test_others_are_told_where_a_listener_is(flags: dict[str, str], told: str) -> None:
    assert load_settings(flags | PUBLIC, {}).url_for_others("http://10.0.0.9:9324") == told


@pytest.mark.parametrize("bound", ["https://0.0.0.0:9324", "https://[::]:9324"])
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"advertise": "queue.example"}, "https://queue.example:9324"),
        ({"raft": "10.0.0.1:7"}, "https://10.0.0.1:9324"),
        ({"raft": "0.0.0.0:7", "peers": "1=10.0.0.1:7,2=10.0.0.2:7"}, "https://10.0.0.1:9324"),
        ({"raft": "0.0.0.0:7"}, ""),
    ],
)
def test_a_wildcard_is_no_place_to_be_found_at(
    flags: dict[str, str], bound: str, told: str
) -> None:
    """Whoever looked there would find itself, and take its own answer for that of a member."""
    settings = load_settings(flags | PUBLIC | {"cluster_secret": "s"}, {})
    assert settings.url_for_others(bound) == told
