"""The database is stopped as if it had crashed: decisions go on, are marked, and nothing acknowledged is lost."""

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers import postgres
from serve.cluster import ITEMS, Cluster, until_answer
from serve.running import Running
from serve.stores import fresh_database

import lim2
from lim2.serve.bandits import Bandits
from lim2.serve.catalog import open_catalog
from lim2.serve.config import load
from lim2.serve.spec import BanditSpec, Stored

SHOP = "/v1/bandits/shop"


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    if reason := postgres.missing():
        pytest.skip(reason)
    with postgres.own_server() as server:
        yield server


def post(server: Running, what: str, body: Any, status: int = 200) -> Any:
    found, answer = server.call("POST", f"{SHOP}/{what}", body)
    assert found == status, (what, body, answer)
    return answer


def decided(server: Running, **more: Any) -> Any:
    return post(server, "decide", {"items": ITEMS, **more})


def test_decisions_go_on_during_an_outage_and_rewards_are_asked_for_again(tmp_path: Path, database: Any) -> None:
    with fresh_database(database.url()) as store, Cluster(tmp_path, store) as cluster:
        decider, learner = cluster.start_all("decide", "learn")
        spec = {"seed": 3, "algorithm": "LinearTS", "expire_after": 3600, "aggregate": "first"}
        assert decider.call("PUT", SHOP, spec)[0] == 201
        before = [decided(decider, id=f"before {number}") for number in range(3)]
        assert all(one["recorded"] for one in before)
        assert post(decider, "reward", {"id": "before 0", "reward": 1.0}) == {"status": "recorded"}
        until_answer(decider, SHOP, lambda own: own["rounds"] == 1)

        database.stop("immediate")
        unrecorded = [decided(decider) for _ in range(3)]
        unrecorded += post(decider, "decide_many", {"requests": [{"items": ITEMS}] * 2})["decisions"]
        unrecorded.append(post(decider, "rank", {"items": ITEMS, "k": 2}))
        named = decided(decider, id="during")
        assert not any(one["recorded"] for one in (*unrecorded, named)) and named["id"] == "during"
        assert decider.call("POST", "/personalizer/v1.0/rank", {"actions": [{"id": "a"}]})[0] == 201
        _refuses_rewards(decider)
        for one in unrecorded:
            answer = post(decider, "reward", {"id": one["id"], "reward": 1.0}, 404)
            assert "was not recorded" in answer["error"]["message"]
        status, ready = decider.call("GET", "/readyz")
        assert (status, ready["ready"], ready["degraded"]) == (200, True, True) and ready["database_unreachable"] >= 0
        until_answer(learner, "/readyz", lambda own: own["database_unreachable"] is not None)

        database.start()
        until_answer(decider, "/readyz", lambda own: own["database_unreachable"] is None)
        for process in cluster.running:
            process.wait()
        assert post(decider, "reward", {"id": "before 1", "reward": 1.0}) == {"status": "recorded"}
        assert post(decider, "reward", {"id": "during", "reward": 1.0}, 404)["error"]["code"] == "ResourceNotFound"
        assert decided(decider, id="after")["recorded"]
        until_answer(decider, SHOP, lambda own: own["rounds"] == 2 and own["lag"] == 0)
        assert decider.call("GET", SHOP)[1]["decisions"] == 4  # three before, and one after


def _refuses_rewards(server: Running) -> None:
    """Nothing is written, and clients are told to come again."""
    for what, body in (
        ("reward", {"id": "before 1", "reward": 1.0}),
        ("reward_many", {"rewards": [{"id": "before 1", "reward": 1.0}]}),
        ("activate", {"id": "before 1"}),
    ):
        answer = post(server, what, body, 503)
        assert answer["error"]["code"] == "ServiceUnavailable"
        assert "postgresql" not in str(answer) and "socket" not in str(answer)


# What a spool of lim2 0.2 holds


def record(*entry: Any) -> bytes:
    content = msgspec.msgpack.encode(entry)
    return struct.pack("<II", len(content), zlib.crc32(content)) + content


def old_decision(catalog: Any, id: str) -> list[Any]:
    """Return the values of an insertion, as the spool kept them."""
    with lim2.DecisionLog(catalog.address_of("other")) as log:
        bandit = lim2.Bandit(["a"], seed=0, log=log)
        bandit.decide({}, id=id)
        row = log.store.look(lambda tables: tables.decision(id)).row  # type: ignore[union-attr]
    return [[id], [list(row)], 0]


def test_what_an_old_spool_holds_is_done_once(tmp_path: Path) -> None:
    with fresh_database() as store:
        config = load(environment={}, given={"store": store, "data": str(tmp_path)})
        catalog: Any = open_catalog(config)
        log = catalog.log_name("shop", 0)
        catalog.create(
            "shop", Stored(spec=BanditSpec(arms=["a"], aggregate="sum", expire_after=1e9), created=0.0, log=log)
        )
        (tmp_path / "spool").mkdir()
        one, two = (tmp_path / "spool" / f"{name}.spool" for name in ("1", "2"))
        decision = old_decision(catalog, "d")
        reward = [[["d", 2.0, None]], 1.0]
        unknown = [[["no", 1.0, None]], 1.0]
        one.write_bytes(record("shop", log, "reward", reward) + record("shop", log, "reward", unknown))
        two.write_bytes(record("shop", log, "insert", decision) + record("gone", "gone/0", "reward", reward) + b"half")
        for _ in range(2):  # the second time nothing is left
            bandits = Bandits(config, catalog, 10)
            bandits.start()
            bandits.close()
        with lim2.DecisionLog(catalog.address_of(log)) as opened:
            rewards = opened.store.look(lambda tables: tables.rewards(tables.find("d").seq))  # type: ignore[union-attr]
            assert rewards == [(2.0, None)]
        names = sorted(path.name for path in (tmp_path / "spool").iterdir())
        assert names == ["1.refused", "1.replayed", "2.damaged", "2.refused"]
        refused = [json.loads((tmp_path / "spool" / f"{name}.refused").read_text()) for name in "12"]
        assert [(line["bandit"], line["kind"]) for line in refused] == [("shop", "reward"), ("gone", "reward")]
        catalog.close()
