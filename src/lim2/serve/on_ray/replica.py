"""A replica: the whole service as an ASGI application, in a process of Ray's, with the bandits that it is asked for."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from ray import serve

from lim2.serve.app import application
from lim2.serve.config import Config
from lim2.serve.errors import ApiError
from lim2.serve.on_ray.placing import bandit_of
from lim2.serve.on_ray.routing import Application
from lim2.serve.registry import PERSONALIZER, Registry
from lim2.serve.service import Service

PATIENCE = 5.0  # seconds that a bandit is kept open for requests that are under way


def built(settings: bytes) -> Application:
    """Return the application of a replica.

    Parameters
    ----------
    settings
        Settings of the service, as JSON.
    """
    config = msgspec.json.decode(settings, type=Config)
    service = Service(config, lambda: (PERSONALIZER,))  # the others are opened when somebody asks for them
    return Multiplexed(application(service), service.registry, config.ray.models)


class Multiplexed:
    """Opens the bandit of a request before it is answered; Ray closes the one that was not asked for the longest.

    Parameters
    ----------
    app
        What answers.
    registry
        The bandits that are open.
    most
        How many may be open.
    """

    def __init__(self, app: Any, registry: Registry, most: int) -> None:
        self._app, self._registry = app, registry

        async def opened(name: str) -> Open:
            await registry.get(name)
            return Open(registry, name)

        self._opened: Callable[[str], Awaitable[Open]] = serve.multiplexed(max_num_models_per_replica=most)(opened)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        name = bandit_of(scope["path"]) if scope["type"] == "http" else None
        try:
            held = None if name is None else await self._opened(name)
        except ApiError:  # there is none: the application says so, or makes it
            held = None
        if held is not None:
            with held:
                await self._app(scope, receive, send)
            return
        await self._app(scope, receive, send)
        if name is not None and name in self._registry.opened:  # this request has made it
            await self._opened(name)


class Open:
    """A bandit that is open in a replica. Ray calls ``__del__`` when it is to be closed.

    Parameters
    ----------
    registry
        Registry in which the bandit is open.
    name
        Name of the bandit.
    """

    def __init__(self, registry: Registry, name: str) -> None:
        self._registry, self._name = registry, name
        self._requests, self._closed = 0, False
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._requests += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._requests -= 1
            self._changed.notify_all()

    def __del__(self) -> None:
        if self._closed:  # by Ray, before Python collects it
            return
        self._closed = True
        with self._changed:
            self._changed.wait_for(lambda: not self._requests, PATIENCE)
        self._registry.drop(self._name)
