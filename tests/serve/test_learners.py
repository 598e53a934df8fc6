"""Who may learn: one at a time. One that was cut off, or stood still, writes nothing any more."""

import signal
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import until
from serve.cluster import ITEMS, Cluster, until_answer
from serve.learning import learn, learner_of
from serve.running import Running
from serve.stores import fresh_database
from serve.test_bandits import rewarded

from lim2.log import LostLeaseError
from lim2.serve.bandits import DecidingBandit
from lim2.serve.catalog import Catalog, open_catalog
from lim2.serve.config import load
from lim2.serve.spec import BanditSpec, Stored

# What the server does to a session that has fallen silent; until it has ended.
CUT = (
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
PUBLISHED = "SELECT max(version) FROM lim2.models WHERE log = (SELECT log FROM lim2.logs WHERE name LIKE 'shop/%')"


def asked(store: str, query: str) -> Any:
    import psycopg

    with psycopg.connect(store, autocommit=True) as connection:
        return connection.execute(query).fetchall()


def made(store: str) -> Catalog:
    catalog = open_catalog(load(environment={}, given={"store": store}))
    catalog.create("shop", Stored(spec=BanditSpec(seed=0), created=0.0, log=catalog.log_name("shop", 0)))
    return catalog


def test_one_that_has_lost_its_lock_can_neither_save_nor_say_where_batches_end() -> None:
    with fresh_database() as store:
        catalog, other = made(store), open_catalog(load(environment={}, given={"store": store}))
        first, second, decider = learner_of(catalog), learner_of(other), DecidingBandit("shop", catalog)
        rewarded(decider, 8)
        assert learn(first) == 8
        own = first.opened["shop"]
        lost, bandit, log = own._lease, own._bandit, own.log
        assert lost is not None and lost.held and bandit is not None and log is not None
        rewarded(decider, 4)
        assert asked(store, CUT)
        assert learn(second) == 12  # nothing was saved
        lease = second.opened["shop"]._lease
        assert lease is not None and lease.epoch > lost.epoch
        rewarded(decider, 4)
        with pytest.raises(LostLeaseError):
            log.publish(bandit, lease=lost)
        with pytest.raises(LostLeaseError):
            log.apply(bandit, batch="auto", lease=lost)
        assert asked(store, PUBLISHED) == [(None,)]
        assert learn(first) == 0 and not first.opened["shop"].leads
        assert learn(second) == 4
        decider.follow()
        assert decider.rounds == 16
        for one in (decider, first, second, catalog, other):
            one.close()


def test_a_session_that_falls_silent_is_ended_by_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lim2.log.postgres.lease.SESSION_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr("lim2.log.postgres.lease.HEARTBEAT_SECONDS", 3600.0)
    with fresh_database() as store:
        catalog = made(store)
        learner, decider = learner_of(catalog), DecidingBandit("shop", catalog)
        rewarded(decider, 1)
        learn(learner)
        lease = learner.opened["shop"]._lease
        assert lease is not None
        until(lambda: not lease.held, "the end of the session")
        monkeypatch.setattr("lim2.log.postgres.lease.SESSION_TIMEOUT_SECONDS", 600)
        rewarded(decider, 1)
        assert learn(learner) == 1 and learner.opened["shop"]._lease not in (None, lease)  # it has got a new one
        for one in (decider, learner, catalog):
            one.close()


def _leads(learner: Running) -> bool:
    return b'lim2_leads{bandit="shop"} 1.0' in learner.call("GET", "/metrics")[1]


def _wait_for_one(learners: list[Running]) -> None:
    """Return when one of them says that it learns, and the others do not."""
    until(lambda: sum(map(_leads, learners)) == 1, "one that learns")


def test_a_learner_that_stood_still_finds_that_another_one_has_taken_over(tmp_path: Path) -> None:
    with fresh_database() as store, Cluster(tmp_path, store) as cluster:
        decider, *learners = cluster.start_all("decide", "learn", "learn")
        decider.call("PUT", "/v1/bandits/shop", {"seed": 0})

        def visited(numbers: range) -> None:
            for number in numbers:
                body = {"id": f"d{number}", "items": ITEMS}
                assert decider.call("POST", "/v1/bandits/shop/decide", body)[0] == 200
                answer = decider.call("POST", "/v1/bandits/shop/reward", {"id": f"d{number}", "reward": 1.0})
                assert answer == (200, {"status": "recorded"})

        visited(range(10))
        until_answer(decider, "/v1/bandits/shop", lambda own: own["rounds"] == 10)
        _wait_for_one(learners)
        still, other = sorted(learners, key=_leads, reverse=True)
        visited(range(10, 20))
        still.process.send_signal(signal.SIGSTOP)  # in the midst of it
        own = still.variables["PGAPPNAME"]  # it may be in a transaction, for whose end rewards would wait
        ended = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = "
        assert asked(store, f"{ended} '{own}' AND datname = current_database()")
        visited(range(20, 30))
        until_answer(decider, "/v1/bandits/shop", lambda own: own["rounds"] == 30)
        _wait_for_one([other])
        still.process.send_signal(signal.SIGCONT)
        visited(range(30, 40))
        until_answer(decider, "/v1/bandits/shop", lambda own: own["rounds"] == 40)
        still.wait()
        _wait_for_one(learners)
        assert still.call("GET", "/readyz")[1]["failures"] == {}
