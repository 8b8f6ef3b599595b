"""A new node asks a running cluster to let it in, before it has a data directory. Shell.

It is told the cluster's id, its number of groups and its members; with these it becomes a node like
any other, whose state the leaders send. If it ends before that, it asks again.
"""

import asyncio
import logging
import secrets
from typing import Final

from fastnode import __version__
from fastnode.clock import SystemClock, SystemIdSource, SystemRng
from fastnode.cluster.cluster_auth import Realm, Signer
from fastnode.cluster.control_api import Addresses, Member
from fastnode.cluster.control_client import ControlClient, Peer
from fastnode.cluster.courier import CONTROL
from fastnode.cluster.member_proof import MemberProof
from fastnode.datadir import Founding
from fastnode.errors import OperationError, StartError
from fastnode.peers.calls import ask
from fastnode.peers.handshake import JOINING, Identity
from fastnode.peers.link import Link
from fastnode.peers.peers import Peers, Rules
from fastnode.settings import Settings
from fastnode.tls import name_in

_LINK_SECONDS: Final = 30.0
_ASK_SECONDS: Final = 10.0
log: Final = logging.getLogger("fastnode")


async def ask_to_join(settings: Settings, proof: MemberProof) -> Founding:
    """`StartError` if nobody answers, or the cluster does not want this node."""
    incarnation = secrets.token_bytes(16)
    clock, ids = SystemClock(), SystemIdSource()
    linked: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
    peers = Peers(
        Identity(
            node_id=settings.node_id, incarnation=incarnation, roles=JOINING, version=__version__
        ),
        proof.secret,
        Rules(lambda _peer: None, lambda _node, _incarnation: True),
        on_raft=lambda _node, _packet: None,
        services={},
        clock=clock,
        ids=ids,
        rng=SystemRng(ids),
        on_up=lambda link: None if linked.done() else linked.set_result(link),
        tls=proof.tls and proof.tls.contexts,
    )
    await peers.start("127.0.0.1", 0)
    peers.set_seeds([settings.join])
    try:
        async with asyncio.timeout(_LINK_SECONDS):
            link = await linked
        return await _join(settings, proof, link, incarnation)
    except TimeoutError:
        raise StartError(
            f"--join {settings.join}: no answer in {_LINK_SECONDS:.0f} s; is it the --raft address "
            "of a running member, and are its secret and its signer this node's too?"
        ) from None
    except OperationError as error:
        raise StartError(f"--join {settings.join}: {error}") from error
    finally:
        await peers.close()


async def _join(settings: Settings, proof: MemberProof, link: Link, incarnation: bytes) -> Founding:
    _, port = await ask(link, CONTROL, b"", _ASK_SECONDS)
    host, _, _ = settings.join.rpartition(":")
    control = f"{host}:{int.from_bytes(port, 'big')}"
    peer = Peer(link.peer.node_id, control, name_in(link.certificate))
    clock, ids = SystemClock(), SystemIdSource()
    realm = Realm(proof.secret, bytes.fromhex(link.peer.cluster_id), settings.node_id)

    def now_ms() -> int:
        """By the clock of the member that is asked, if ours is wrong."""
        return (clock.wall_ns() + (link.clock_offset_ns or 0)) // 1_000_000

    client = ControlClient(Signer(realm, now_ms, ids), proof.tls)
    member = Member(settings.node_id, incarnation, Addresses(str(settings.advertised_raft)))
    try:
        joined = await client.join(peer, member)
    finally:
        await client.close()
    log.info("joined a cluster", extra={"cluster": link.peer.cluster_id, "via": settings.join})
    addresses = {one.node: one.addresses.raft for one in joined.members}
    return Founding(joined.cluster_id.hex(), joined.groups, incarnation, addresses)
