"""Which client connections a worker hands to a sibling: those whose first request is about a queue
of the sibling's. What a `Connection` calls; the way there is `handover.py`.
"""

from fastnode.http.http1 import Request
from fastnode.http.router import Router
from fastnode.http.server import HttpServer
from fastnode.queue.homes import home_of
from fastnode.workers.assignment import owner_of
from fastnode.workers.handover import HandOver
from fastnode.workers.worker_node import WorkerNode


class WorkerMover:
    def __init__(self, node: WorkerNode, router: Router, server: HttpServer) -> None:
        self._node = node
        self._router = router
        self._handover = handover = HandOver(node.worker, node.paths, server)
        self.move = handover.move
        self.start = handover.start
        self.close = handover.close
        node.on_sibling_up = handover.connect
        node.on_sibling_down = handover.disconnect

    def owner_of(self, request: Request) -> int | None:
        read = self._router.read(request)
        if read is None:
            return None
        caller, operation, decoded = read
        home = home_of(self._node.service, caller, operation.name, decoded)
        if home is None:
            return None
        owner = owner_of(home.number, self._node.workers)
        return None if owner == self._node.worker else owner

    def metrics(self) -> dict[str, float]:
        return {
            "fastnode_connections_handed_over_total": self._handover.moved_count,
            "fastnode_connections_not_handed_over_total": self._handover.refused_count,
        }
