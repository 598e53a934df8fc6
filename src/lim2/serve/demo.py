"""A simulated shop that sends visitors and clicks, so that there is something to see within a minute."""

import asyncio
import contextlib
import fcntl
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from lim2.log import LogError
from lim2.serve.deciding import decide
from lim2.serve.errors import ApiError
from lim2.serve.service import Service
from lim2.serve.spec import BanditSpec
from lim2.serve.wire import SettingsRequest

logger = logging.getLogger("lim2.serve")

NAME = "demo"
SPEC = BanditSpec(expire_after=8.0, default_reward=0.0, aggregate="first", epsilon=0.1, keep_days=1.0)
CHANGEABLE = {*SettingsRequest.__struct_fields__} & {
    *BanditSpec.__struct_fields__
}  # settings that the dashboard may have changed
PAUSE = 0.04  # seconds between visitors, on average
CATALOGUE: dict[str, dict[str, Any]] = {
    "running shoes": {"kind": "sport", "price": 89.0, "tags": ["new"]},
    "football": {"kind": "sport", "price": 25.0, "tags": ["sale"]},
    "headphones": {"kind": "music", "price": 120.0, "tags": ["new"]},
    "concert ticket": {"kind": "music", "price": 65.0, "tags": []},
    "olive oil": {"kind": "food", "price": 14.0, "tags": ["regional"]},
    "cheese board": {"kind": "food", "price": 32.0, "tags": ["sale", "regional"]},
    "novel": {"kind": "books", "price": 12.0, "tags": ["new"]},
    "travel guide": {"kind": "books", "price": 18.0, "tags": []},
}
LIKED = {"AT": "food", "DE": "sport", "CH": "books"}


def visitor(rng: random.Random) -> dict[str, Any]:
    """Return who comes."""
    return {
        "country": rng.choice(list(LIKED)),
        "device": rng.choice(["phone", "laptop", None]),
        "age": rng.randint(16, 80),
        "returning": rng.random() < 0.4,
    }


def chance(who: dict[str, Any], item: dict[str, Any]) -> float:
    """Return the probability of a click: by country, by age, and a little by price.

    Examples
    --------
    >>> young = {"country": "DE", "device": "phone", "age": 20, "returning": False}
    >>> round(chance(young, CATALOGUE["concert ticket"]), 2), round(chance(young, CATALOGUE["novel"]), 2)
    (0.43, 0.08)
    """
    liked = item["kind"] == LIKED[who["country"]] or (item["kind"] == "music" and who["age"] < 30)
    return (
        (0.5 if liked else 0.08) - (0.07 if liked and item["price"] > 60 else 0.0) + (0.05 if who["returning"] else 0.0)
    )


async def shop(service: Service) -> None:
    """Send visitors until the service stops."""
    with _alone(Path(service.config.data)) as alone:
        if not alone:  # another worker process does it
            return
        try:
            await asyncio.to_thread(opened, service)
            rng = random.Random()
            while True:
                await _visit(service, rng)
                await asyncio.sleep(rng.expovariate(1.0 / PAUSE))
        except (ApiError, LogError) as error:  # somebody has deleted it, or the disk is full
            logger.warning("the simulated shop has closed: %s; start the service again to open it", error)


def opened(service: Service) -> None:
    """Make the bandit of the shop, unless it is there; its settings may have been changed."""
    if NAME in service.catalog.names():
        own = service.catalog.read(NAME).spec
        if msgspec.structs.replace(own, **{name: getattr(SPEC, name) for name in CHANGEABLE}) == SPEC:
            return
    service.bandits.create(NAME, SPEC)


async def _visit(service: Service, rng: random.Random) -> None:
    """Let a visitor come, and perhaps click a little later."""
    hosted = await service.bandits.get(NAME)
    who, shown = visitor(rng), rng.sample(list(CATALOGUE), 5)
    made = await decide(hosted, who, {name: CATALOGUE[name] for name in shown}, None)
    service.metrics.decided(NAME, made)
    if rng.random() < chance(who, CATALOGUE[made.arm]):
        asyncio.get_running_loop().call_later(rng.expovariate(1.0), _click, service, made.id)


def _click(service: Service, id: str) -> None:
    service.in_background(_reward(service, id))


async def _reward(service: Service, id: str) -> None:
    with contextlib.suppress(ApiError, LogError):  # the shop says why it closes
        hosted = await service.bandits.get(NAME)
        status = await hosted.log.areward(id, 1.0)
        service.metrics.rewarded(NAME, status, 1.0)
        hosted.tell()


@contextlib.contextmanager
def _alone(data: Path) -> Iterator[bool]:
    """Yield whether this process is the one that simulates."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / ".demo").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
