"""Settings that are good one by one and not together. A leaf; `settings.py` asks it last."""

from typing import TYPE_CHECKING, Final

from fastnode.errors import UsageError
from fastnode.option_values import Address, parse_address

if TYPE_CHECKING:
    from fastnode.settings import Settings

_GUARDS: Final = {
    "listen": ", or give --credentials",
    "admin": ", or give --admin-tokens",
    "raft": ", or give --peer-tls-cert, --peer-tls-key and --peer-tls-ca",
}
_TOGETHER: Final = (("tls_cert", "tls_key"), ("peer_tls_cert", "peer_tls_key", "peer_tls_ca"))


def check_together(settings: "Settings") -> None:
    for field in settings.open_to_network:
        if not settings.insecure:
            raise UsageError(
                f"--{field} {getattr(settings, field)} is not loopback and is open to "
                "whoever reaches it: bind to 127.0.0.1, or add --insecure if the network is yours"
                + _GUARDS.get(field, "")
            )
    listeners = {"listen": settings.listen, "admin": settings.admin, "raft": settings.raft}
    taken: dict[Address, str] = {}
    for field, address in listeners.items():
        if address in taken and address.port != 0:
            raise UsageError(
                f"--{taken[address]} and --{field} are both {address}: give one another port"
            )
        taken[address] = field
    for fields in _TOGETHER:
        _check_whole(settings, fields)
    _check_cluster(settings)


def _check_whole(settings: "Settings", fields: tuple[str, ...]) -> None:
    flags = [f"--{field.replace('_', '-')}" for field in fields]
    given = [bool(getattr(settings, field)) for field in fields]
    missing = [flag for flag, is_given in zip(flags, given, strict=True) if not is_given]
    if 0 < len(missing) < len(fields):
        named = f"{', '.join(flags[:-1])} and {flags[-1]}"
        raise UsageError(f"{named} are given together or not: add {' and '.join(missing)}")


def _check_cluster(settings: "Settings") -> None:
    if settings.workers != 1 and (settings.peers or settings.join):
        raise UsageError("a node with several --workers is alone: drop --peers and --join, or it")
    peers = settings.peer_addresses
    if peers and settings.join:
        raise UsageError("--peers begins a cluster and --join enters one: give only one of them")
    if peers and settings.node_id not in peers:
        raise UsageError(
            f"--peers does not name node {settings.node_id}: "
            "add it, or say by --node-id which of them this one is"
        )
    if settings.join and settings.raft.port == 0:
        raise UsageError("--join needs a --raft address with a port: the others will look for it")
    if (peers or settings.join) and not (settings.cluster_secret or settings.peer_tls_cert):
        joined = [parse_address(settings.join)] if settings.join else []
        members = (settings.raft, *joined, *peers.values())
        public = [address for address in members if not address.is_loopback]
        if public:
            raise UsageError(
                f"members at {public[0]} must prove who they are: give --cluster-secret a file, "
                "the same for all, or each of them --peer-tls-cert"
            )
