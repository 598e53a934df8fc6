"""Three deciders and two learners over one database, killed at random under load."""

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

from helpers.waiting import until
from serve.cluster import LOST, Balancer, Client, Cluster, is_ready, until_answer
from serve.running import Running
from serve.stores import fresh_database

import lim2
from lim2.serve import spec as specs
from lim2.serve.catalog import open_catalog
from lim2.serve.config import load
from lim2.serve.spec import BanditSpec

KILLS = int(os.environ.get("LIM2_REPLICA_KILLS", "2"))  # 50 is the whole attack, in about a minute
CLIENTS, VISITORS = 4, 15  # at the same time, and of each client per kill

# Who publishes is written down by the database itself.
AUDIT = """
CREATE TABLE audit (version bigint, position bigint, epoch bigint, who text);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit SELECT NEW.version, NEW.position, (head->>'epoch')::bigint, current_setting('application_name')
    FROM lim2.logs l JOIN lim2.bandits b ON b.log = l.name WHERE b.name = NEW.bandit AND b.name = 'shop';
    RETURN NEW;
END $$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OF version ON lim2.snapshots FOR EACH ROW EXECUTE FUNCTION audit();
"""


def test_nothing_is_lost_and_one_learns_at_a_time_while_processes_are_killed(tmp_path: Path) -> None:
    import psycopg

    with fresh_database() as store, Cluster(tmp_path, store) as cluster:
        processes = cluster.start_all("decide", "decide", "decide", "learn", "learn")
        with psycopg.connect(store, autocommit=True) as connection:
            connection.execute(AUDIT)
        spec = {"seed": 5, "algorithm": "LinearTS", "expire_after": 600, "default_reward": 0, "aggregate": "first"}
        assert processes[0].call("PUT", "/v1/bandits/shop", spec)[0] == 201
        balancer = Balancer(processes[:3])
        clients = [Client(balancer, "shop", f"client {number}") for number in range(CLIENTS)]
        for client in clients:
            client.start()
            client.send(VISITORS)
        # So that the first one that learns is among those who have published.
        until(lambda: _published(store) > 0, "a model that is published")
        learners = processes[3:]
        killed = _kill(cluster, balancer, learners, clients)
        for client in clients:
            client.end()
        balancer.close()
        for process in cluster.running:
            process.wait()
            assert process.call("GET", "/readyz")[1]["failures"] == {}
        until_answer(balancer.deciders[0], "/v1/bandits/shop", lambda own: own["lag"] == 0 and own["rounds"] > 0)
        # It publishes before it ends, at the latest.
        until(lambda: any(_leads(one) for one in learners), "one that learns")
        for process in list(cluster.running):
            cluster.stop(process)
        assert [answer for client in clients for answer in client.refused] == []
        assert {server for client in clients for server in client.lost} <= set(killed)
        assert len(killed) == KILLS
        _check(store, clients, spec)
        _check_publishers(store)


def _kill(cluster: Cluster, balancer: Balancer, learners: list[Running], clients: list[Client]) -> list[Running]:
    """Kill a process every second, if enough are ready, and start others in their places; return who was killed."""
    rng, killed, starting = random.Random(KILLS), list[Running](), list[threading.Thread]()

    def replace(kind: list[Running], role: str) -> None:
        kind.append(cluster.start(role, ready=False))

    for number in range(KILLS):
        began = time.monotonic()
        for client in clients:
            client.send(max(VISITORS - client.waiting, 0))
        time.sleep(rng.uniform(0.0, 0.3))  # into the midst of it
        one = rng.choice(until(lambda number=number: _candidates(balancer, learners, number), "one to kill"))  # type: ignore[misc]
        kind, role = (learners, "learn") if one in learners else (balancer.deciders, "decide")
        kind.remove(one)
        killed.append(one)
        cluster.kill(one)
        starting.append(threading.Thread(target=replace, args=(kind, role)))
        starting[-1].start()
        time.sleep(max(1.0 - (time.monotonic() - began), 0.0))
    for thread in starting:
        thread.join()
    return killed


def _candidates(balancer: Balancer, learners: list[Running], number: int) -> list[Running]:
    """Return who may be killed: all that are ready, but not the last decider. Every third time the one that learns."""
    if number % 3 == 1:
        return [one for one in list(learners) if _leads(one)]
    deciders = balancer.ready
    return [one for one in list(learners) if is_ready(one)] + (deciders if len(deciders) > 1 else [])


def _leads(learner: Running) -> bool:
    try:
        return b'lim2_leads{bandit="shop"} 1.0' in learner.call("GET", "/metrics")[1]
    except LOST:
        return False


def _published(store: str) -> int:
    """Return how many models of the bandit have been published."""
    import psycopg

    with psycopg.connect(store) as connection:
        rows = connection.execute("SELECT count(*) FROM audit").fetchall()
    return int(rows[0][0])


def _check(store: str, clients: list[Client], spec: dict[str, Any]) -> None:
    """Compare what was acknowledged with the log, and the log with the last model."""
    catalog = open_catalog(load(environment={}, given={"store": store}))
    log = catalog.open_log("shop", catalog.read("shop"))
    settled = 0
    for client in clients:
        assert len(client.decided) == client.sent >= VISITORS
        for id, arm in client.decided.items():
            assert log.get(id).arm == arm
        for id, (value, outcome) in client.rewarded.items():
            assert outcome in ("recorded", "duplicate") and log.get(id).reward == value, id
        settled += len(client.rewarded)
    state = log.state
    assert (state.rewards, state.late) == (settled, 0)
    learned = state.rewards + state.defaults  # of decisions that nobody has rewarded, if it took so long
    assert learned == log.position
    model = log.model()
    assert model is not None
    live: lim2.Bandit = lim2.from_bytes(model.data)
    fresh = specs.made(BanditSpec(**spec))
    assert log.replay(fresh) == learned == live.rounds
    assert _learned(live) == _learned(fresh)
    log.close()
    catalog.close()


def _learned(bandit: Any) -> bytes:
    """Return all that a bandit knows, without the streams from which it decides."""
    twin = bandit.copy()
    twin.agent.reseed(0)
    twin.metadata.clear()
    return bytes(twin.to_bytes())


def _check_publishers(store: str) -> None:
    """Models are in the order of their epochs, and all of an epoch are of one process."""
    import psycopg

    with psycopg.connect(store) as connection:
        rows = connection.execute("SELECT version, position, epoch, who FROM audit ORDER BY version").fetchall()
    epochs = [epoch for _, _, epoch, _ in rows]
    positions = [position for _, position, _, _ in rows]
    assert epochs == sorted(epochs)
    assert positions == sorted(positions)
    publishers: dict[int, set[str]] = {}
    for _, _, epoch, who in rows:
        publishers.setdefault(epoch, set()).add(who)
    assert all(len(own) == 1 for own in publishers.values()), publishers
    assert len(publishers) >= 2 or KILLS < 2
