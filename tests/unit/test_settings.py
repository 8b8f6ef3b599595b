"""Settings: the table of options and the four places a value comes from."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastnode.config import CAPABILITIES, GROUPS_MAX
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
    not_options = {"queues", "queue_tags", "explicit", "config_file", "flags"}
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


@pytest.mark.parametrize("field", ["dedup_batch_send", "dedup_sdk_retries"])
def test_a_switch_that_is_on_can_be_cleared_from_everywhere(tmp_path: Path, field: str) -> None:
    config = write(tmp_path, f"{field} = false")
    variable = f"FASTNODE_{field.upper()}"
    assert getattr(load_settings({}, {}), field) is True
    for loaded in (
        load_settings({field: "false"}, {variable: "1"}),
        load_settings({}, {variable: "0"}),
        load_settings({}, {}, config=config),
    ):
        assert getattr(loaded, field) is False
        assert loaded.explicit == {field}
    assert getattr(load_settings({}, {variable: "1"}, config=config), field) is True


def test_each_capability_can_be_switched_off_and_no_other() -> None:
    for name in ("", *CAPABILITIES):
        assert load_settings({}, {"FASTNODE_WITHOUT_CAPABILITY": name}).without_capability == name
    assert refusal({"without_capability": "htfifo,dedup"}) == (
        "--without-capability must be empty or one of htfifo, dedup, not 'htfifo,dedup'"
    )


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
        ("dedup_sdk_retries = 0", "dedup_sdk_retries in {} must be true or false, not 0"),
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
        ("dedup_batch_send", ""),
        ("dedup_sdk_retries", "2"),
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
