"""Which replica answers a request: all requests about a bandit go to the same one, as long as it has room.

Ray Serve gives the router to whoever sends requests to the replicas, which are its HTTP proxies. So clients and
nodes need no setting for it.
"""

import pickle
import random
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ray.serve.request_router import RequestRouter

from lim2.serve.on_ray.placing import bandit_of, preferred

Application = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


def path_of(request: Any) -> str:
    """Return the path of an HTTP request; empty if it is none."""
    found = pickle.loads(request) if isinstance(request, bytes) else request
    return str(getattr(found, "asgi_scope", {}).get("path", ""))


class ByBandit(RequestRouter):
    """Routes requests about a bandit by its name, and other requests to the less busy of two replicas."""

    async def choose_replicas(self, candidate_replicas: list[Any], pending_request: Any = None) -> list[list[Any]]:
        """Return replicas in groups; a group is asked when all replicas of the groups before are full."""
        name = None
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True  # before all of them are asked again
            name = bandit_of(path_of(pending_request.args[0]))
        if name is None:
            return [random.sample(candidate_replicas, min(2, len(candidate_replicas))), candidate_replicas]
        known = {replica.replica_id.unique_id: replica for replica in candidate_replicas}
        return [[known[id]] for id in preferred(name, list(known))]
