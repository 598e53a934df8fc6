"""One bandit in several processes, played by several objects: one learns, the others take over what it publishes."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lim2
from lim2.serve import spec as specs
from lim2.serve.config import load
from lim2.serve.hosted import Hosted
from lim2.serve.registry import Registry
from lim2.serve.spec import BanditSpec

ITEMS = {"a": {"kind": "x"}, "b": {"kind": "y"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    registry = Registry(load(environment={}, given={"data": str(tmp_path), "synchronous": "normal"}))
    registry.create("shop", BanditSpec(seed=0))
    registry.close()
    return tmp_path / "bandits" / "shop"


def opened(folder: Path) -> Hosted:
    return Hosted("shop", folder, synchronous="normal", publish_every=0.0)


def rewarded(hosted: Hosted, count: int) -> None:
    async def play() -> None:
        for _ in range(count):
            made = await hosted.decide({}, ITEMS, None)
            await hosted.log.areward(made.id, float(made.arm == "a"))

    asyncio.run(play())


def means(hosted: Hosted) -> Any:
    return hosted.decider.decide({}, ITEMS, exploit=True).means.tolist()


def test_one_learns_and_the_others_follow_until_one_takes_over(folder: Path) -> None:
    first, second = opened(folder), opened(folder)
    assert (first.step(), second.step()) == (0, 0)
    assert (first.leads, second.leads) == (True, False)
    rewarded(second, 5)  # decided and rewarded by the one that does not learn
    assert (first.step(), second.step()) == (5, 0)
    assert (second.rounds, second.lag) == (5, 0)
    assert means(first) == means(second)
    rewarded(first, 3)
    first.close()  # with three rewards that it has not learned
    assert second.step() == 3
    assert (second.leads, second.rounds) == (True, 8)
    third = opened(folder)
    third.step()
    assert (third.leads, third.rounds) == (False, 8)
    assert means(second) == means(third)
    second.close()
    third.close()


def test_a_new_description_reaches_all_and_the_old_model_decides_until_the_new_one_has_caught_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = opened(folder), opened(folder)
    rewarded(first, 6)
    first.step()
    second.step()
    monkeypatch.setattr("lim2.serve.hosted.LIMIT", 2)
    stored = specs.read(folder)
    other = msgspec.structs.replace(stored.spec, algorithm="LinearTS")
    specs.write(folder, msgspec.structs.replace(stored, spec=other, revision=1))
    before = first.decider
    assert first.step() == 2 and first.decider is before
    while first.step():
        pass
    second.step()
    assert first.rounds == second.rounds == 6
    assert means(first) == means(second) and "LinearTS" in repr(first._bandit)
    first.close()
    second.close()


def test_readers_never_learn(folder: Path) -> None:
    reader = Hosted("shop", folder, synchronous="normal", learns=False)
    rewarded(reader, 2)
    assert reader.step() == 0 and not reader.leads
    first = opened(folder)
    first.step()
    reader.step()
    assert reader.rounds == 2
    first.close()
    reader.close()


def test_a_new_bandit_has_a_model_before_the_learner_has_looked(folder: Path) -> None:
    hosted = opened(folder)
    assert lim2.from_bytes(hosted.model_file()).rounds == 0
    hosted.close()
