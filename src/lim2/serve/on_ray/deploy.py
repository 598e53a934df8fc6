"""`lim2 serve --on ray`: replicas that answer and actors that learn, on a cluster that is there or one of its own."""

import logging
import os
import signal
import threading
import time
from typing import Any

import msgspec
import ray
from ray import serve
from ray.exceptions import GetTimeoutError, RayActorError
from ray.serve.config import RequestRouterConfig

from lim2.serve.config import Config, ConfigError
from lim2.serve.on_ray.routing import ByBandit
from lim2.serve.run import announce, prepared

logger = logging.getLogger("lim2.serve")

NAME = "lim2"  # of the application of Ray Serve, and of the namespace of the actors
LEARNER = "learner-"  # what the names of the actors that learn begin with
WATCH = 5.0  # seconds between looks at the learners
PATIENCE = 30.0  # seconds for an actor to answer


class Learning:
    """An owner of bandits, as an actor: Ray starts it anew when its process or its machine dies."""

    def __init__(self, settings: bytes, number: int, owners: int) -> None:
        from lim2.serve.on_ray.owner import Owner

        self._owner = Owner(msgspec.json.decode(settings, type=Config), number, owners)
        self._owner.start()

    def state(self) -> dict[str, Any]:
        """Return how the owner is doing, and its process."""
        if not self._owner.alive:
            os._exit(1)  # Ray starts it anew
        return {**self._owner.state, "process": os.getpid()}

    def stop(self) -> None:
        """Publish what was learned, and end."""
        self._owner.stop()


def deploy(config: Config) -> None:
    """Start the service on the cluster that this process is connected to; return when it answers."""
    settings = msgspec.json.encode(
        msgspec.structs.replace(config, role="decide", workers=1, metrics_port=0, open_bandits=config.ray.models)
    )
    own = config.ray
    serve.start(proxy_location="EveryNode", http_options={"host": config.host, "port": config.port})
    start_learners(settings, own.learners)

    def application() -> Any:
        from lim2.serve.on_ray.replica import built

        return built(settings)

    replica = serve.deployment(
        name="replica",
        num_replicas=own.replicas,
        ray_actor_options={"num_cpus": own.cpus},
        max_ongoing_requests=256,
        request_router_config=RequestRouterConfig(request_router_class=ByBandit),  # type: ignore[arg-type]
    )(serve.ingress(application)(type("Replica", (), {})))
    serve.run(replica.bind(), name=NAME, route_prefix="/")


def start_learners(settings: bytes, count: int) -> None:
    """Start the learners. Those of an earlier deployment, which may have other settings, end first."""
    end_learners()
    for number in range(count):
        learner = ray.remote(Learning).options(
            name=f"{LEARNER}{number}",
            namespace=NAME,
            lifetime="detached",
            max_restarts=-1,
            max_task_retries=-1,
            num_cpus=0,
        )
        learner.remote(settings, number, count)


def learners() -> list[Any]:
    """Return the learners that run, also those that another process has started."""
    names = sorted(own["name"] for own in ray.util.list_named_actors(all_namespaces=True) if own["namespace"] == NAME)
    return [ray.get_actor(name, namespace=NAME) for name in names if name.startswith(LEARNER)]


def end_learners() -> None:
    """End the learners that run: what was learned is published."""
    for actor in learners():
        try:
            ray.get(actor.stop.remote(), timeout=PATIENCE)
        except (RayActorError, GetTimeoutError) as error:
            logger.warning("a learner did not end in order; its bandits are learned again from the log: %s", error)
        ray.kill(actor)
    while learners():  # their names are taken until then
        time.sleep(0.1)


def withdraw() -> None:
    """End the service on the cluster: what was acknowledged is in the database, what was learned is published."""
    serve.delete(NAME)
    end_learners()


def run(config: Config) -> None:
    """Serve until a signal comes."""
    if config.store is None:
        raise ConfigError("--on ray needs --store postgresql://...: the machines of a cluster share no folder")
    if config.port == 0:
        raise ConfigError("--on ray needs a port: it is the same on every machine of the cluster")
    where, key = prepared(config)
    ray.init(address=config.ray.address or None, namespace=NAME, log_to_driver=False)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        deploy(config)
        announce(config, config.port, where, key)
        while not ended.wait(WATCH):
            watch()
        withdraw()
    finally:
        ray.shutdown()


def watch() -> None:
    """Look at the learners: one whose thread has ended is started anew."""
    for actor in learners():
        try:
            ray.get(actor.state.remote(), timeout=PATIENCE)
        except (RayActorError, GetTimeoutError) as error:
            logger.warning("a learner does not answer: %s", error)
