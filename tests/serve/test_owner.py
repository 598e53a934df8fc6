"""An owner of bandits, as an actor of a Ray cluster has it: what it opens, and what it closes again."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from serve.learning import learn, learner_of
from serve.stores import fresh_database
from serve.test_bandits import rewarded

from lim2.log import StoreUnavailableError
from lim2.serve.bandits import DecidingBandit
from lim2.serve.catalog.postgres import PostgresCatalog
from lim2.serve.config import load
from lim2.serve.on_ray.owner import Owner
from lim2.serve.outage import Outage
from lim2.serve.spec import BanditSpec, Stored

DAY = 86400.0
NAMES = ("forever", "month", "young")


@pytest.fixture
def url() -> Iterator[str]:
    with fresh_database() as made:
        yield made


@pytest.fixture
def catalog(url: str) -> Iterator[PostgresCatalog]:
    """Give bandits that have learned all there is. Two keep decisions for a month, one of them has older ones."""
    made = PostgresCatalog(url, Outage(), "normal")
    for name in NAMES:
        spec = BanditSpec(seed=0, algorithm="LinearTS", keep_days=None if name == "forever" else 30.0)
        made.create(name, Stored(spec=spec, created=0.0, log=made.log_name(name, 0)))
        decider = DecidingBandit(name, made)
        decider.log.clock = lambda: time.time() - (0 if name == "young" else 40 * DAY)  # noqa: B023
        rewarded(decider, 3)
        decider.close()
    learner = learner_of(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lim2.serve.learning.prune", lambda *_, **__: None)  # nothing is deleted yet
        learn(learner)
        learner.close()
    yield made
    made.close()


@pytest.fixture
def owner(url: str, catalog: PostgresCatalog) -> Iterator[Owner]:
    given = {"store": url, "on": "ray", "synchronous": "normal", "ray": {"models": 10}}
    made = Owner(load(environment={}, given=given), 0, 1)
    yield made
    made.learner.close()
    made.learner.catalog.close()


def rows(catalog: PostgresCatalog) -> dict[str, int]:
    """Return how many events of each bandit can be read."""
    return {one.name: one.state.rewards for one in catalog.page("", 100, {}) if one.state and one.name in NAMES}


def opened(owner: Owner) -> set[str]:
    """Let an owner look, and return which bandits it has open."""
    owner.learner.step()
    return set(owner.state["open"])


def test_idle_bandits_are_opened_to_delete_what_is_too_old(owner: Owner, catalog: PostgresCatalog) -> None:
    assert catalog.aged(time.time()) == ["month"]
    catalog.looked({name: catalog.stamp(name) for name in catalog.names()})  # type: ignore[misc]
    assert rows(catalog) == {"forever": 3, "month": 3, "young": 3}
    while rows(catalog)["month"]:
        assert opened(owner) & {"forever", "young"} == set()
    assert rows(catalog) == {"forever": 3, "month": 0, "young": 3}
    assert catalog.aged(time.time()) == []
    assert catalog.aged(time.time() + 31 * DAY) == ["young"]


def test_an_owner_survives_a_database_that_goes_in_the_midst_of_a_look(
    owner: Owner, catalog: PostgresCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Any) -> None:
        raise StoreUnavailableError("stopped by the test")

    catalog.change("forever", lambda stored: msgspec.structs.replace(stored, created=1.0))
    with monkeypatch.context() as patch:
        patch.setattr(owner.learner.catalog, "looked", away)
        while owner.learner.catalog.outage.since is None:
            opened(owner)
    while "forever" in catalog.waiting(time.time()):  # it has not been noted yet
        opened(owner)
    assert owner.learner.catalog.outage.since is None
