"""The clients against a real service, in a process of its own, over loopback."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from helpers.ports import free_port
from helpers.waiting import PATIENCE, until
from serve.running import KEY, READ, Running

import lim2
from lim2.client import RefusedError, calls

ITEMS = {"sku2": {"price": 9.9, "tags": ["new", "red"]}, "sku1": {"price": 120, "tags": ["red"]}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("client") / "data") as running:
        yield running


@pytest.fixture
def shop(server: Running, request: pytest.FixtureRequest) -> Iterator[lim2.Client]:
    with lim2.Client(server.url, KEY, bandit=request.node.name[:60].replace("[", "-").replace("]", "")) as client:
        client.create(seed=0, aggregate="sum", expire_after=3600.0)
        yield client
        client.delete()


def test_everything_that_a_bandit_does(server: Running) -> None:
    with lim2.Client(server.url, KEY, bandit="arms") as client:
        assert client.create(arms=["spring", "shoes"], algorithm="LinearTS", seed=1)["rounds"] == 0
        client.create(arms=["spring", "shoes"], algorithm="LinearTS", seed=1)  # the same again
        decision = client.decide({"age": np.float32(31), "at": datetime(2026, 1, 1)}, key="ann", metadata={"page": 1})
        assert decision.arm in decision.arms == ("spring", "shoes")
        assert sum(decision.propensities) == pytest.approx(1.0)
        assert client.update(decision, reward=1.0) == "recorded"
        named = client.decide({"age": 20}, id="order 7/ü", arms=["shoes"], exploit=True)
        assert (named.id, named.arm) == ("order 7/ü", "shoes")
        assert client.decide({"age": 99}, id="order 7/ü").arm == "shoes"
        assert client.reward("order 7/ü", 0.0, name="click") == "recorded"
        assert client.reward("order 7/ü", 0.0, name="click") == "duplicate"
        many = client.decide_many([{"context": {"age": age}} for age in range(20)])
        assert client.reward_many([(one.id, 1.0) for one in many]) == ["recorded"] * 20
        assert {reason.key for reason in client.explain(decision)} == {"age", "at"}
        assert client.evaluate("random").decisions == 22
        proof = client.proof("shoes", reward_range=(0, 2))
        assert (proof.rule, proof.verdict, proof.reward_range) == ("always:shoes", "not yet", (0.0, 2.0))
        assert proof.decisions + proof.uncovered == 22 and str(proof).startswith("not yet")
        client.change(control=lim2.Control("shoes", share=1.0))
        ruled = client.decide({"age": 20})
        assert (ruled.arm, ruled.group, client.proof().rule) == ("shoes", "control", "always:shoes")
        assert client.pin("spring")["spec"]["pin"] == "spring" and client.decide({}).arm == "spring"
        assert client.pause()["spec"]["paused"] and not client.resume()["spec"]["paused"]
        assert client.change(control=None)["spec"]["control"] is None
        with pytest.raises(ValueError, match="a service compares with an arm"):
            client.proof(lambda context, arms: "shoes")
        until(lambda: client.info()["rounds"] == 22, "all that was rewarded")
        until(lambda: client.snapshot().rounds == 22, "a model that has learned everything")
        model = client.snapshot()
        assert isinstance(model, lim2.Bandit) and model.arms == ("spring", "shoes")
        assert client.erase("ann") == 1
        assert client.erase("ann") == 0
        waiting = client.decide({}, active=False)
        assert client.activate(waiting.id) is True
        assert "arms" in [one["name"] for one in client.bandits()]
        client.delete()
        with pytest.raises(RefusedError, match="there is no bandit 'arms'") as caught:
            client.decide({})
        assert (caught.value.status, caught.value.code) == (404, "ResourceNotFound")


def test_all_bandits_are_listed_page_by_page(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"listed-{number}" for number in range(7)]
    monkeypatch.setattr(calls, "BANDITS_PER_PAGE", 3)
    with lim2.Client(server.url, KEY) as client:
        for name in names:
            client.of(name).create(arms=["a", "b"])
        found = [one["name"] for one in client.bandits()]

        async def all_names() -> list[str]:
            async with lim2.AsyncClient(server.url, KEY) as other:
                return [one["name"] for one in await other.bandits()]

        assert asyncio.run(all_names()) == found == sorted(found)
        assert set(names) < set(found)
        for name in names:
            client.of(name).delete()


def test_arms_come_and_go(server: Running) -> None:
    with lim2.Client(server.url, KEY, bandit="changing") as client:
        client.create(arms=["a", "b"], algorithm="LinearTS", seed=1)
        assert client.add_arm("c d/e", like="a") == client.add_arm("c d/e") == ["a", "b", "c d/e"]
        assert client.decide({}, arms=["c d/e"]).arm == "c d/e"
        client.remove_arm("a")
        with pytest.raises(RefusedError, match="no arm"):
            client.remove_arm("a")
        assert client.decide({}).arms == ("b", "c d/e")

    async def change() -> list[str]:
        async with lim2.AsyncClient(server.url, KEY, bandit="changing") as own:
            await own.remove_arm("c d/e")
            return await own.add_arm("f")

    assert asyncio.run(change()) == ["b", "f"]


def test_items_and_slates(shop: lim2.Client) -> None:
    decision = shop.decide({"budget": "small"}, ITEMS)
    assert decision.arms == ("sku2", "sku1")  # in the order that was given
    slate = shop.rank({"budget": "small"}, ITEMS, k=2)
    assert sorted(slate.arms) == ["sku1", "sku2"]
    assert shop.update(slate, {1: 0.0, "slot 2": 1.0}) == {1: "recorded", "slot 2": "recorded"}
    assert shop.reward(slate[1].id, 1.0) == "recorded"  # a position is a decision of its own
    assert shop.rank({}, ITEMS, id="s").arms == shop.rank({}, ITEMS, id="s").arms
    assert shop.change(default_reward=0.0)["spec"]["default_reward"] == 0.0


def test_contexts_are_what_they_are_in_process(shop: lim2.Client) -> None:
    @dataclass
    class Visitor:
        country: str
        since: datetime
        tags: set[str]

    visitor = Visitor("AT", datetime(2026, 3, 1, 12), {"b", "a"})
    decision = shop.decide(visitor, ITEMS)
    reasons = {reason.key: reason.value for reason in shop.explain(decision.id) if reason.source == "context"}
    assert reasons["country"] == "AT"
    assert "since" in reasons


def test_wrong_and_lesser_keys(server: Running, shop: lim2.Client) -> None:
    assert shop.bandit is not None
    with pytest.raises(RefusedError, match="401 401: a key is missing or wrong"):
        lim2.Client(server.url, "wrong", shop.bandit).info()
    reader = lim2.Client(server.url, READ, shop.bandit)
    assert reader.info()["decisions"] == 0
    with pytest.raises(RefusedError, match="403 OperationNotAllowed: this key has the role read: use one with decide"):
        reader.decide({}, ITEMS)


def test_many_threads_share_a_client(shop: lim2.Client) -> None:
    def visit(number: int) -> str:
        decision = shop.decide({"number": number}, ITEMS)
        outcome: str = shop.update(decision, 1.0)
        return outcome

    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(visit, range(200))) == {"recorded"}
    assert shop.info()["decisions"] == 200


def test_many_coroutines_share_a_client(server: Running, shop: lim2.Client) -> None:
    async def visit(client: lim2.AsyncClient, number: int) -> str:
        decision = await client.decide({"number": number}, ITEMS)
        outcome: str = await client.update(decision, 1.0)
        return outcome

    async def visits() -> list[str]:
        async with lim2.AsyncClient(server.url, KEY, bandit="no such bandit") as other:
            client = other.of(shop.bandit or "")
            assert (await client.info())["decisions"] == 0
            assert shop.bandit in [one["name"] for one in await client.bandits()]
            with pytest.raises(RefusedError, match="name of a bandit"):
                await other.decide({})
            outcomes = await asyncio.gather(*(visit(client, number) for number in range(200)))
            assert isinstance(await client.snapshot(), lim2.Bandit)
            return outcomes

    assert asyncio.run(visits()) == ["recorded"] * 200
    assert shop.info()["decisions"] == 200


def test_a_service_that_is_killed_and_restarted_has_everything_once(tmp_path: Path) -> None:
    """Threads decide and reward while the service dies and comes back; rewards are summed, so twice would show."""
    port, data, each, n = free_port(), tmp_path / "data", 40, 4
    running = Running(data, port=port)
    client = lim2.Client(running.url, KEY, bandit="shop", deadline=PATIENCE)
    client.create(aggregate="sum", expire_after=1e6, seed=0)
    done, kept = threading.Semaphore(0), []

    def visit(number: int) -> None:
        for _ in range(each):
            decision = client.decide({"number": number}, ITEMS)
            outcome = client.reward(decision.id, 1.0)
            kept.append((decision, outcome))
            done.release()

    with ThreadPoolExecutor(n) as threads:
        visits = [threads.submit(visit, number) for number in range(n)]
        for _ in range(3):
            for _ in range(20):
                assert done.acquire(timeout=PATIENCE)
            running.kill()
            running = Running(data, port=port)
        for one in visits:
            one.result()
    try:
        assert len(kept) == n * each
        assert {outcome for _, outcome in kept} <= {"recorded", "duplicate"}
        assert client.info()["decisions"] == n * each  # what was tried twice is there once
        assert {client.decide({}, ITEMS, id=made.id).arm == made.arm for made, _ in kept} == {True}
    finally:
        running.stop()
    with lim2.DecisionLog(data / "bandits" / "shop" / "log.db") as log:
        counts = [log.store.look(partial(count_rewards, id=made.id)) for made, _ in kept]
    assert counts == [1] * (n * each)


def count_rewards(tables: Any, id: str) -> int:
    return len(tables.rewards(tables.find(id).seq))
