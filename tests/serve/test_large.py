"""Large decisions are computed beside the event loop: other requests are answered meanwhile."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from helpers.waiting import PATIENCE
from starlette.testclient import TestClient

from lim2.bandit.rows import ItemRows, Rows
from lim2.deciding import Decider
from lim2.log.microbatching import MAX_DECISIONS
from lim2.serve.deciding import decide
from lim2.serve.service import Service

PERSONALIZER = "/personalizer/v1.1-preview.3"
ITEMS = {f"i{place}": {"price": place, "kind": place % 7} for place in range(300)}
LONG = [{"id": f"a{place}", "features": [{f"key {n}": f"{place} {n}" for n in range(200)}]} for place in range(50)]
SLOTS = [{"id": f"s{place}", "baselineAction": f"a{place}"} for place in range(50)]


class Gate:
    """Where a decision waits until it may go on."""

    def __init__(self) -> None:
        self.reached, self._opened = threading.Event(), threading.Event()

    def wait(self) -> None:
        """Wait; an error if nobody opens it, as the loop would that waits here itself."""
        self.reached.set()
        assert self._opened.wait(PATIENCE / 6), "the event loop waits for a decision"

    def open(self) -> None:
        """Let decisions go on."""
        self._opened.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Let every decision wait before it is computed."""
    made = Gate()
    for kind in (Rows, ItemRows):

        def waiting(*parts: Any, question: Any = kind.question, **options: Any) -> Any:
            made.wait()
            return question(*parts, **options)

        monkeypatch.setattr(kind, "question", waiting)
    return made


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/bandits/items/decide", {"context": {}, "items": ITEMS}),
        ("/v1/bandits/items/rank", {"context": {}, "items": ITEMS, "k": 3}),
        ("/v1/bandits/items/decide_many", {"requests": [{"context": {}, "items": ITEMS}]}),
        ("/v1/bandits/arms/decide", {"context": {}}),
        ("/v1/bandits/features/decide", {"context": {}}),
        (f"{PERSONALIZER}/rank", {"actions": LONG}),
        (f"{PERSONALIZER}/multislot/rank", {"actions": LONG, "slots": SLOTS}),
    ],
)
def test_others_are_answered_while_a_large_decision_is_computed(
    path: str, body: Any, client: TestClient, gate: Gate
) -> None:
    for name, arms in {"items": None, "arms": list(ITEMS), "features": ITEMS}.items():
        assert client.put(f"/v1/bandits/{name}", json={"arms": arms}).status_code == 201
    answers_while_it_waits(client, gate, path, body)


def test_others_are_answered_while_a_large_rank_of_an_apprentice_is_computed(client: TestClient, gate: Gate) -> None:
    assert client.patch("/v1/bandits/personalizer", json={"learning_mode": "Apprentice"}).status_code == 200
    answers_while_it_waits(client, gate, f"{PERSONALIZER}/rank", {"actions": LONG})


def answers_while_it_waits(client: TestClient, gate: Gate, path: str, body: Any) -> None:
    with ThreadPoolExecutor(1) as thread:
        large = thread.submit(client.post, path, json=body)
        assert gate.reached.wait(PATIENCE)
        assert client.get("/healthz").status_code == 200
        gate.open()
        assert large.result().status_code in (200, 201), large.result().text


def test_large_groups_are_decided_beside_the_loop(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    hosted, gate, answer = service.personalizer, Gate(), Decider.decide_many
    items = {name: ITEMS[name] for name in list(ITEMS)[:30]}

    def waiting(decider: Decider, questions: Any) -> Any:
        if len(questions) > 1:
            gate.wait()
        return answer(decider, questions)

    monkeypatch.setattr(Decider, "decide_many", waiting)

    async def main() -> list[Any]:
        asked = [
            asyncio.ensure_future(decide(hosted, {}, items, None, id=f"d{place}")) for place in range(MAX_DECISIONS)
        ]
        assert await asyncio.to_thread(gate.reached.wait, PATIENCE)
        asked.pop().cancel()  # its client has gone
        await decide(hosted, {}, items, None)
        gate.open()
        return await asyncio.gather(*asked)

    made = asyncio.run(main())
    assert [one.id for one in made] == [f"d{place}" for place in range(MAX_DECISIONS - 1)]
    service.bandits.close()


@pytest.mark.parametrize("arms", [None, ITEMS, list(ITEMS)])
def test_a_large_decision_is_that_of_the_snapshot(arms: Any, client: TestClient, service: Service) -> None:
    assert client.put("/v1/bandits/shop", json={"arms": arms, "epsilon": 0.1, "seed": 0}).status_code == 201
    given = {"context": {"n": 1}} | ({"items": ITEMS} if arms is None else {})
    decider = service.bandits.opened["shop"].decider
    chances = decider.propensities(given["context"], given.get("items")).tolist()
    made = client.post("/v1/bandits/shop/decide", json=given).json()
    assert made["arms"] == list(ITEMS)
    assert made["propensities"] == pytest.approx(chances)
    assert made["propensity"] == made["propensities"][made["arms"].index(made["arm"])]
