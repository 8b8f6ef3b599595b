"""Who may reach what: the tables that `docs/security.md` shows and `test_access_matrix.py` tries.

A number is the HTTP status of the answer: 200 is let in, everything else is not.
"""

from typing import Final, NamedTuple

Row = tuple[int, ...]


class Table(NamedTuple):
    """Of one kind of node: who → what comes of each attempt."""

    title: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[object, ...]]


_CLIENT_COLUMNS: Final = (
    "SQS API",
    "admin API: look",
    "admin API: change",
    "`/metrics`",
    "`/healthz`",
)
LET_IN: Final = "let in"
REFUSED: Final = "refused"

CLOSED: Final = Table(
    "A node with `--credentials` and `--admin-tokens`",
    _CLIENT_COLUMNS,
    {
        "nobody in particular": (403, 401, 401, 200, 200),
        "an access key that is not in the file": (403, 401, 401, 200, 200),
        "an access key with a wrong secret": (403, 401, 401, 200, 200),
        "an access key": (200, 401, 401, 200, 200),
        "a token that is not in the file": (400, 401, 401, 200, 200),
        "a read-only token": (400, 200, 403, 200, 200),
        "a full token": (400, 200, 200, 200, 200),
        "a session, with its CSRF token": (403, 200, 200, 200, 200),
        "a session, without CSRF token": (403, 200, 403, 200, 200),
        "a session, with another one's CSRF token": (403, 200, 403, 200, 200),
        "a read-only session, with its CSRF token": (403, 200, 403, 200, 200),
        "a session that has ended": (403, 401, 401, 200, 200),
        "a page of another origin, with a session": (403, 403, 403, 403, 200),
        "an access key, from a page of another origin": (200, 403, 403, 403, 200),
        "a full token, for another `Host`": (400, 200, 200, 200, 200),
    },
)
OPEN: Final = Table(
    "An open node, on loopback",
    _CLIENT_COLUMNS,
    {
        "nobody in particular": (200, 200, 200, 200, 200),
        "any access key": (200, 200, 200, 200, 200),
        "a page of another origin": (403, 403, 403, 403, 200),
        "another `Host`, made to resolve to this machine": (403, 403, 403, 403, 200),
        "a page of its own, without a session": (200, 200, 403, 200, 200),
    },
)
WITHOUT_TLS: Final = Table(
    "Either of them with `--tls-cert`, without TLS",
    _CLIENT_COLUMNS,
    {"anybody": (400, 400, 400, 400, 400)},
)
_MEMBER_COLUMNS: Final = ("peer port", "control port")
MEMBERS_TLS: Final = Table(
    "A member with `--cluster-secret` and `--peer-tls-cert`",
    _MEMBER_COLUMNS,
    {
        "the secret, and a certificate of the signer": (LET_IN, LET_IN),
        "another secret, and a certificate of the signer": (REFUSED, REFUSED),
        "the secret, and no certificate": (REFUSED, REFUSED),
        "the secret, and a certificate of another signer": (REFUSED, REFUSED),
        "the secret, without TLS": (REFUSED, REFUSED),
    },
)
MEMBERS_SECRET: Final = Table(
    "A member with `--cluster-secret` alone",
    _MEMBER_COLUMNS,
    {
        "the secret": (LET_IN, LET_IN),
        "another secret": (REFUSED, REFUSED),
        "no secret": (REFUSED, REFUSED),
    },
)
TABLES: Final = (CLOSED, OPEN, WITHOUT_TLS, MEMBERS_TLS, MEMBERS_SECRET)


def rendered(table: Table) -> str:
    lines = [
        f"| {' | '.join(('who', *table.columns))} |",
        f"|{'---|' * (len(table.columns) + 1)}",
        *(f"| {' | '.join((who, *map(str, row)))} |" for who, row in table.rows.items()),
    ]
    return f"**{table.title}**\n\n" + "\n".join(lines) + "\n"
