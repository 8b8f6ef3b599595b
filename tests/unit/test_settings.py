"""Settings: the table of options and the four places a value comes from."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.config import GROUPS_MAX
from fastnode.errors import UsageError
from fastnode.option_values import Address, parse_address
from fastnode.settings import OPTIONS, Settings, load_settings


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "node.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(
    flags: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
    config: str | None = None,
) -> str:
    with pytest.raises(UsageError) as caught:
        load_settings(flags or {}, environ or {}, config=config)
    return str(caught.value)


def test_no_choice_gives_one_durable_node_on_loopback() -> None:
    settings = load_settings({}, {"PATH": "/bin"})
    assert settings == Settings()
    assert str(settings.listen) == "127.0.0.1:9324"
    assert str(settings.admin) == "127.0.0.1:9325"
    assert (settings.data_dir, settings.groups, settings.fsync) == ("./fastnode-data", 8, "always")
    assert settings.explicit == frozenset()


def test_every_option_has_a_field_and_every_choice_a_row() -> None:
    not_options = {"queues", "explicit"}
    assert [option.field for option in OPTIONS] == [
        field for field in Settings.__struct_fields__ if field not in not_options
    ]


def test_every_default_is_accepted_from_every_source(tmp_path: Path) -> None:
    default = Settings()
    texts = {option.field: option.default_text for option in OPTIONS}
    lines = [
        f'{option.field} = "{texts[option.field]}"'
        if option.toml_type is str
        else f"{option.field} = {texts[option.field]}"
        for option in OPTIONS
    ]
    variables = {option.variable: texts[option.field] for option in OPTIONS}
    config = write(tmp_path, "\n".join(lines))
    for loaded in (
        load_settings(texts, {}),
        load_settings({}, variables),
        load_settings({}, {}, config=config),
    ):
        assert loaded.explicit == frozenset(texts)
        for field in texts:
            assert getattr(loaded, field) == getattr(default, field)


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    config = write(tmp_path, 'groups = 2\nregion = "eu-west-1"\nnode_id = 7\n')
    settings = load_settings(
        {"groups": "4"}, {"FASTNODE_GROUPS": "3", "FASTNODE_REGION": "eu-north-1"}, config=config
    )
    assert (settings.groups, settings.region, settings.node_id) == (4, "eu-north-1", 7)
    assert settings.listen == Settings().listen
    assert settings.explicit == {"groups", "region", "node_id"}


def test_a_switch_that_the_environment_sets_can_be_cleared_by_a_flag() -> None:
    assert load_settings({}, {"FASTNODE_STRICT": "1"}).strict is True
    assert load_settings({"strict": "false"}, {"FASTNODE_STRICT": "1"}).strict is False


def test_config_file_is_named_by_flag_or_environment(tmp_path: Path) -> None:
    config = write(tmp_path, "groups = 2")
    assert load_settings({}, {"FASTNODE_CONFIG": config}).groups == 2
    assert load_settings({}, {"FASTNODE_CONFIG": "/absent"}, config=config).groups == 2


def test_unknown_environment_variable_names_the_nearest() -> None:
    message = refusal(environ={"FASTNODE_GRUOPS": "2"})
    assert message == (
        "unknown environment variable FASTNODE_GRUOPS; did you mean FASTNODE_GROUPS?"
    )


def test_variables_of_the_build_are_no_settings() -> None:
    environ = {"FASTNODE_PURE": "1", "FASTNODE_BUILD": "debug", "FAST": "x"}
    assert load_settings({}, environ) == Settings()


def test_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    config = write(tmp_path, 'data-dri = "x"')
    assert refusal(config=config) == f"unknown key data-dri in {config}; did you mean data_dir?"


def test_unknown_key_without_a_relative_is_told_to_go(tmp_path: Path) -> None:
    config = write(tmp_path, "zzz = 1")
    assert refusal(config=config) == f"unknown key zzz in {config}: remove it"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('groups = "8"', "groups in {} must be an integer, not '8'"),
        ("groups = true", "groups in {} must be an integer, not True"),
        ("groups = 0", "groups in {} must be a whole number from 1 to 256, not '0'"),
        ("strict = 1", "strict in {} must be true or false, not 1"),
        ("region = 1", "region in {} must be a string, not 1"),
        ('fsync = "maybe"', "fsync in {} must be always or never, not 'maybe'"),
        ("groups = ", "{} is not valid TOML: "),
        ("queues = 3", "queues in {} must be tables: write [queues.NAME]"),
        ("[queues]\njobs = 3", "queues.jobs in {} must be a table: write [queues.jobs]"),
        ("[queues.a.fifo]\nx = 1", 'written in quotes: [queues."a.fifo"]'),
        ("[queues.a]\nx = 1.5", "x in [queues.a] in {} must be a string, an integer, true or"),
    ],
)
def test_a_wrong_line_in_the_file_is_named(tmp_path: Path, line: str, problem: str) -> None:
    config = write(tmp_path, line)
    assert problem.format(config) in refusal(config=config)


def test_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes(b"\xff\xfe")
    assert "is not valid TOML" in refusal(config=str(path))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    assert "No such file or directory: give --config" in refusal(config=str(tmp_path / "absent"))


def test_queues_are_read_with_values_as_sqs_spells_them(tmp_path: Path) -> None:
    text = '[queues.jobs]\nVisibilityTimeout = 45\n[queues."a.fifo"]\nFifoQueue = true\nKey = "v"\n'
    settings = load_settings({}, {}, config=write(tmp_path, text + "[queues.plain]\n"))
    assert settings.queues == {
        "jobs": {"VisibilityTimeout": "45"},
        "a.fifo": {"FifoQueue": "true", "Key": "v"},
        "plain": {},
    }


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("groups", "0"),
        ("groups", str(GROUPS_MAX + 1)),
        ("groups", "1_0"),
        ("groups", "٣"),
        ("groups", "9" * 5000),
        ("groups", "-1"),
        ("groups", ""),
        ("node_id", "0"),
        ("region", ""),
        ("region", "EU"),
        ("region", "a--b"),
        ("region", "a" * 33),
        ("data_dir", ""),
        ("data_dir", "a\0b"),
        ("fsync", "Always"),
        ("strict", "perhaps"),
        ("log_level", "loud"),
    ],
)
def test_value_out_of_range_is_refused_with_its_source(field: str, text: str) -> None:
    flag = "--" + field.replace("_", "-")
    assert refusal({field: text}).startswith(f"{flag} must be ")
    assert refusal(environ={f"FASTNODE_{field.upper()}": text}).startswith(
        f"FASTNODE_{field.upper()} must be "
    )


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9324", "127.0.0.1", 9324),
        ("localhost:0", "localhost", 0),
        ("[::1]:0", "::1", 0),
        ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535),
    ],
)
def test_address_round_trips(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "9324", ":9324", "a:", "a:b", "a:65536", "a:-1", "a:+1", "a:1_0", "a:٣"),
        *("::1:80", "[a]:80", "[]:80", "[::1]", "[::1:80", "::1]:80"),
        *("http://a:80", "a b:80", "u@h:1"),
    ],
)
def test_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        parse_address(text)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    try:
        address = parse_address(text)
    except ValueError:
        return
    assert parse_address(str(address)) == address
    assert 0 <= address.port <= 65535


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1"])
def test_open_api_binds_to_loopback(host: str) -> None:
    address = str(Address(host, 1))
    assert load_settings({"listen": address}, {}).listen == Address(host, 1)


@pytest.mark.parametrize("field", ["listen", "admin"])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1.nip.io"])
def test_open_api_beyond_loopback_needs_consent(field: str, host: str) -> None:
    address = str(Address(host, 1))
    assert f"--{field} {address} is not loopback" in refusal({field: address})
    consented = load_settings({field: address, "insecure": "true"}, {})
    assert getattr(consented, field) == Address(host, 1)


def test_credentials_guard_the_queues_and_not_the_administration() -> None:
    public = {"listen": "0.0.0.0:1", "credentials": "keys.json"}
    assert load_settings(public, {}).listen == Address("0.0.0.0", 1)
    assert "--admin 0.0.0.0:2 is not loopback" in refusal(public | {"admin": "0.0.0.0:2"})
    assert "--credentials must be the path of a file" in refusal({"credentials": "\0"})


def test_two_listeners_cannot_share_an_address_unless_the_system_chooses_the_port() -> None:
    same = {"listen": "127.0.0.1:5", "admin": "127.0.0.1:5"}
    assert "both 127.0.0.1:5" in refusal(same)
    assert load_settings({"listen": "127.0.0.1:0", "admin": "127.0.0.1:0"}, {}).listen.port == 0


# --- clusters -----------------------------------------------------------------------------------

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
