"""What an operator may choose: one table of options, and where their values come from. A leaf.

`OPTIONS` is the only list of options. The command line, the environment variables, the keys of the
TOML file, `--help` and the table in `docs/operations.md` are all derived from it, so a new option
is one field of `Settings` and one row. Fixed limits live in `config.py`. Nothing here opens a
socket or touches the data directory.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from fastnode.config import CAPABILITIES, GROUPS_DEFAULT, GROUPS_MAX
from fastnode.errors import UsageError
from fastnode.option_values import (
    NODE_ID_MAX,
    WILDCARDS,
    Address,
    choice,
    integer,
    parse_address,
    parse_capability,
    parse_host,
    parse_join,
    parse_optional_path,
    parse_path,
    parse_peers,
    parse_region,
    parse_switch,
    parse_workers,
)
from fastnode.settings_check import check_together
from fastnode.settings_file import QUEUES_KEY, Declared, as_text, read_document, take_queues

ENVIRONMENT_PREFIX: Final = "FASTNODE_"
CONFIG_VARIABLE: Final = "FASTNODE_CONFIG"
# What commands show to the admin API of a node that asks for it.
PROOF_VARIABLE: Final = "FASTNODE_ADMIN_TOKEN"
# Read elsewhere: which twin of the compiled modules is loaded, and the profile they are built with.
FOREIGN_VARIABLES: Final = frozenset(
    {CONFIG_VARIABLE, PROOF_VARIABLE, "FASTNODE_PURE", "FASTNODE_BUILD"}
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `fastnode run` was told. The defaults are one durable node on loopback."""

    data_dir: str = "./fastnode-data"
    listen: Address = Address("127.0.0.1", 9324)
    admin: Address = Address("127.0.0.1", 9325)
    raft: Address = Address("127.0.0.1", 9326)
    node_id: int = 1
    # Empty: the node is alone, until others join it or it joins others.
    peers: str = ""
    join: str = ""
    cluster_secret: str = ""
    # Both or none. With them the SQS API and the admin listener speak TLS, and nothing else.
    tls_cert: str = ""
    tls_key: str = ""
    # All three or none. With them members speak TLS with each other, and only with their like.
    peer_tls_cert: str = ""
    peer_tls_key: str = ""
    peer_tls_ca: str = ""
    # Empty: others reach this node where it listens.
    advertise: str = ""
    groups: int = GROUPS_DEFAULT
    # 0: one for every core.
    workers: int = 1
    region: str = "us-east-1"
    # Empty: the API is open to whoever reaches it.
    credentials: str = ""
    # Empty: the admin API is open to whoever reaches it.
    admin_tokens: str = ""
    insecure: bool = False
    fsync: Literal["always", "never"] = "always"
    strict: bool = False
    # In a cluster they count once every member understands them.
    dedup_batch_send: bool = True
    dedup_sdk_retries: bool = True
    # Empty: partitions are spread over the groups, and the node has all capabilities.
    partition_map: str = ""
    without_capability: str = ""
    # Empty: requests leave no trace but their effects.
    access_log: str = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"
    # 0: no request is too slow to be worth a line.
    slow_request_ms: int = 1_000
    # Queue name → attribute name → value as SQS spells it; the node creates them at start.
    queues: dict[str, dict[str, str]] = {}
    queue_tags: dict[str, dict[str, str]] = {}
    # Fields that somebody set: what a data directory recorded beats a default, not a choice.
    explicit: frozenset[str] = frozenset()
    # Where they came from, to be read again: the file and the texts of the flags.
    config_file: str = ""
    flags: dict[str, str] = {}

    @property
    def open_to_network(self) -> list[str]:
        """The listeners that anybody in the network may use, or listen to: signatures guard the SQS
        API, tokens the admin API, and what members tell each other is encrypted by TLS only.
        """
        tokens, tls = self.admin_tokens, self.peer_tls_cert
        guards = {"listen": self.credentials, "admin": tokens, "raft": tls}
        open_to_all = [field for field, guard in guards.items() if not guard]
        return [field for field in open_to_all if not getattr(self, field).is_loopback]

    @property
    def scheme(self) -> str:
        """Of the URLs of the SQS API and the admin listener."""
        return "https" if self.tls_cert else "http"

    @property
    def advertised_raft(self) -> Address:
        """Where the other members reach this one."""
        return Address(self.advertise or self.raft.host, self.raft.port)

    def url_for_others(self, url: str) -> str:
        """Where the other members find this listener; empty if that is nowhere they know of."""
        bound = urlsplit(url)
        host = self.advertise or bound.hostname or ""
        if host in WILDCARDS:
            host = self.peer_addresses.get(self.node_id, self.raft).host
        if host in WILDCARDS:
            return ""
        return f"{bound.scheme}://{Address(host, bound.port or 0)}"

    @property
    def peer_addresses(self) -> dict[int, Address]:
        """The members of a cluster that is begun together, this one included."""
        entries = (entry.split("=") for entry in self.peers.split(",") if entry)
        return {int(node): parse_address(address) for node, address in entries}


class Option(msgspec.Struct, frozen=True):
    """One row: `parse` turns text into the field's value or raises ValueError("must be …")."""

    field: str
    metavar: str
    toml_type: type[str] | type[int] | type[bool]
    parse: Callable[[str], object]
    summary: str

    @property
    def flag(self) -> str:
        return "--" + self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.field.upper()

    @property
    def is_switch(self) -> bool:
        return self.toml_type is bool

    @property
    def default_text(self) -> str:
        return as_text(getattr(Settings(), self.field))


OPTIONS: Final[tuple[Option, ...]] = (
    Option("data_dir", "DIR", str, parse_path, "where the node keeps everything it knows"),
    Option("listen", "HOST:PORT", str, parse_address, "address of the SQS API; port 0 takes any"),
    Option("admin", "HOST:PORT", str, parse_address, "address of health, metrics, administration"),
    Option("raft", "HOST:PORT", str, parse_address, "address at which members reach this node"),
    Option("node_id", "N", int, integer(1, NODE_ID_MAX), "this node's number in its cluster"),
    Option(
        "peers",
        "1=HOST:PORT,…",
        str,
        parse_peers,
        "all members of a cluster that is begun together, this one too, by their --raft addresses",
    ),
    Option(
        "join",
        "HOST:PORT",
        str,
        parse_join,
        "--raft address of any member of a running cluster, to become a member of it",
    ),
    Option(
        "cluster_secret",
        "FILE",
        str,
        parse_optional_path,
        "file with what only members know, at least 16 bytes; members prove it to each other",
    ),
    Option(
        "tls_cert",
        "FILE",
        str,
        parse_optional_path,
        "PEM certificate, with its chain, that clients see; --listen and --admin speak TLS then",
    ),
    Option("tls_key", "FILE", str, parse_optional_path, "PEM private key of it"),
    Option(
        "peer_tls_cert",
        "FILE",
        str,
        parse_optional_path,
        "PEM certificate that this node shows to other members; they speak TLS then",
    ),
    Option("peer_tls_key", "FILE", str, parse_optional_path, "PEM private key of it"),
    Option(
        "peer_tls_ca",
        "FILE",
        str,
        parse_optional_path,
        "PEM certificate of who signs those of members, and of nobody else",
    ),
    Option(
        "advertise",
        "HOST",
        str,
        parse_host,
        "host name or address of this node for others, if it is not that of its listeners",
    ),
    Option(
        "groups",
        "N",
        int,
        integer(1, GROUPS_MAX),
        "replicated logs to spread queues over; fixed when the data directory is created",
    ),
    Option("workers", "N|auto", str, parse_workers, "processes that share the groups; auto: cores"),
    Option("region", "R", str, parse_region, "AWS region of queue ARNs"),
    Option(
        "credentials",
        "FILE",
        str,
        parse_optional_path,
        "JSON file of the access keys that may sign requests; empty leaves the API open",
    ),
    Option("admin_tokens", "FILE", str, parse_optional_path, "JSON file of who may administrate"),
    Option("insecure", "", bool, parse_switch, "let the open API bind to more than loopback"),
    Option(
        "fsync",
        "always|never",
        str,
        choice("always", "never"),
        "when to sync the log: never answers before messages are on disk, a power cut loses them",
    ),
    Option("strict", "", bool, parse_switch, "AWS's 60-second waiting rules too"),
    Option(
        "dedup_batch_send",
        "",
        bool,
        parse_switch,
        "repeat a call whose outcome was lost with a leader; what has landed does not land twice",
    ),
    Option(
        "dedup_sdk_retries",
        "",
        bool,
        parse_switch,
        "know a call that a client's SDK repeats, and answer it as the first time",
    ),
    Option(
        "partition_map",
        "SPEC",
        str,
        str,
        "groups of the partitions of FIFO queues, as NAME:COUNT=GROUP,…;…; the rest are spread",
    ),
    Option(
        "without_capability",
        "NAME",
        str,
        parse_capability,
        f"run as if this build lacked the capability ({' or '.join(CAPABILITIES)}), for upgrades",
    ),
    Option(
        "access_log",
        "DIR",
        str,
        parse_optional_path,
        "directory for a line per request, without bodies; the load pipeline replays it",
    ),
    Option(
        "log_level",
        "LEVEL",
        str,
        choice("debug", "info", "warning", "error"),
        "least important log line to write: debug, info, warning or error",
    ),
    Option(
        "log_format",
        "console|json",
        str,
        choice("console", "json"),
        "log lines as key=value for people, or as a JSON object each",
    ),
    Option(
        "slow_request_ms",
        "N",
        int,
        integer(0, 600_000),
        "log requests that take longer, beyond what a receive may wait; 0 logs none",
    ),
)
_BY_FIELD: Final = {option.field: option for option in OPTIONS}
_BY_VARIABLE: Final = {option.variable: option for option in OPTIONS}


def load_settings(
    flags: Mapping[str, str], environ: Mapping[str, str], *, config: str | None = None
) -> Settings:
    """Flag > environment > file > default. `flags` maps a field to the text given for it."""
    config = environ.get(CONFIG_VARIABLE) if config is None else config
    values, declared = ({}, Declared({}, {})) if config is None else _read_file(config)
    values |= _read_environment(environ)
    for field, text in flags.items():
        values[field] = _parse(_BY_FIELD[field], text, source=_BY_FIELD[field].flag)
    settings = msgspec.structs.replace(
        Settings(),
        **values,
        queues=declared.queues,
        queue_tags=declared.tags,
        explicit=frozenset(values),
        config_file=config or "",
        flags=dict(flags),
    )
    own = settings.peer_addresses.get(settings.node_id)
    if own is not None and "raft" not in settings.explicit:
        settings = msgspec.structs.replace(settings, raft=own)
    check_together(settings)
    return settings


def nearest(word: str, valid: Iterable[str]) -> str:
    """The end of an error about an unknown word: `; did you mean X?`, or nothing."""
    matches = difflib.get_close_matches(word, list(valid), n=1, cutoff=0.5)
    return f"; did you mean {matches[0]}?" if matches else ""


def _parse(option: Option, text: str, *, source: str) -> object:
    try:
        return option.parse(text)
    except ValueError as error:
        raise UsageError(f"{source} {error}, not {text!r}") from None


def _read_environment(environ: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name in sorted(environ):
        if not name.startswith(ENVIRONMENT_PREFIX) or name in FOREIGN_VARIABLES:
            continue
        option = _BY_VARIABLE.get(name)
        if option is None:
            hint = nearest(name, {*_BY_VARIABLE, *FOREIGN_VARIABLES})
            raise UsageError(f"unknown environment variable {name}{hint or ': unset it'}")
        values[option.field] = _parse(option, environ[name], source=name)
    return values


def _read_file(path: str) -> tuple[dict[str, object], Declared]:
    document = read_document(path)
    declared = take_queues(path, document)
    return {key: _read_key(path, key, value) for key, value in document.items()}, declared


def _read_key(path: str, key: str, value: object) -> object:
    option = _BY_FIELD.get(key)
    if option is None:
        hint = nearest(key.replace("-", "_"), {*_BY_FIELD, QUEUES_KEY})
        raise UsageError(f"unknown key {key} in {path}{hint or ': remove it'}")
    if type(value) is not option.toml_type:
        wanted = {str: "a string", int: "an integer", bool: "true or false"}[option.toml_type]
        raise UsageError(f"{key} in {path} must be {wanted}, not {value!r}")
    return _parse(option, as_text(value), source=f"{key} in {path}")
