"""A learner beside a service within the process of a test."""

import contextlib
from collections.abc import Iterator
from typing import Any

from helpers.waiting import until

from lim2.serve.catalog import Catalog, open_catalog
from lim2.serve.config import Config
from lim2.serve.learner import Learner
from lim2.serve.metrics import Metrics
from lim2.serve.service import Service


@contextlib.contextmanager
def learning(config: Config) -> Iterator[Learner]:
    """Learn the bandits of a service in a thread."""
    catalog = open_catalog(config)
    learner = Learner(catalog, config.open_bandits, 100, Metrics(), poll=0.02)
    learner.start()
    try:
        yield learner
    finally:
        learner.stop()
        catalog.close()


def learned(service: Service, name: str = "shop") -> None:
    """Wait until a bandit decides by all that its log has."""
    bandit = service.bandits.opened[name]
    until(lambda: bandit.lag == 0, lambda: f"all is learned: {bandit.position}, {service.failures}")


def learner_of(catalog: Catalog, **options: Any) -> Learner:
    """Return a learner that looks when a test says so."""
    return Learner(catalog, options.pop("most", 100), options.pop("logs", 100), Metrics(), **options)


def learn(learner: Learner) -> int:
    """Learn and post all that there is; return how many rewards."""
    learned = learner.step()
    while (more := learner.step()) or any(own.has_news for own in learner.opened.values()):
        learned += more
    return learned
