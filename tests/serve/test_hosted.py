"""One bandit in several processes, played by several objects: one learns, the others take over what it publishes."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from serve.stores import over_all

import lim2
from lim2.log import StoreUnavailableError
from lim2.serve import arms
from lim2.serve.catalog import Catalog, NoBanditError, open_catalog
from lim2.serve.config import load
from lim2.serve.deciding import decide
from lim2.serve.hosted import Hosted
from lim2.serve.spec import BanditSpec, Stored

ITEMS = {"a": {"kind": "x"}, "b": {"kind": "y"}}


pytestmark = over_all


@pytest.fixture
def catalog(tmp_path: Path, store: str | None) -> Iterator[Catalog]:
    made = open_catalog(load(environment={}, given={"data": str(tmp_path), "synchronous": "normal", "store": store}))
    made.create("shop", Stored(spec=BanditSpec(seed=0), created=0.0, log=made.log_name("shop", 0)))
    yield made
    made.close()


def opened(catalog: Catalog) -> Hosted:
    return Hosted("shop", catalog, publish_every=0.0)


def rewarded(hosted: Hosted, count: int) -> None:
    async def play() -> None:
        for _ in range(count):
            made = await decide(hosted, {}, ITEMS, None)
            await hosted.log.areward(made.id, float(made.arm == "a"))

    asyncio.run(play())


def means(hosted: Hosted) -> Any:
    return hosted.decider.decide({}, ITEMS, exploit=True).means.tolist()


def test_one_learns_and_the_others_follow_until_one_takes_over(catalog: Catalog) -> None:
    first, second = opened(catalog), opened(catalog)
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
    third = opened(catalog)
    third.step()
    assert (third.leads, third.rounds) == (False, 8)
    assert means(second) == means(third)
    second.close()
    third.close()


def test_a_new_description_reaches_all_and_the_old_model_decides_until_the_new_one_has_caught_up(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = opened(catalog), opened(catalog)
    rewarded(first, 6)
    first.step()
    second.step()
    monkeypatch.setattr("lim2.serve.hosted.FEW", 2)
    monkeypatch.setattr("lim2.serve.hosted.A_WHILE", 0.0)

    def changed(stored: Stored) -> Stored:
        other = msgspec.structs.replace(stored.spec, algorithm="LinearTS")
        return msgspec.structs.replace(stored, spec=other, revision=1)

    first.change(changed)
    before = first.decider
    assert first.step() == 2 and first.decider is before
    while first.step():
        pass
    second.step()
    assert first.rounds == second.rounds == 6
    assert means(first) == means(second) and "LinearTS" in repr(first._bandit)
    first.close()
    second.close()


def test_events_from_which_nothing_is_learned_are_behind_the_model_too(catalog: Catalog) -> None:
    """Such as decisions without a reward: else the model would lag forever, and its log could not be pruned."""
    hosted = opened(catalog)
    rewarded(hosted, 1)
    assert hosted.step() == 1
    made = asyncio.run(decide(hosted, {}, ITEMS, None))
    hosted.log.discard(made.id)
    assert hosted.step() == 0
    model = hosted.log.model()
    assert model is not None
    assert hosted.lag == 0 and hosted.position == model.position == hosted.log.position == 2
    hosted.close()


def test_many_change_a_description_at_the_same_time(catalog: Catalog) -> None:
    """More than there are connections, and each needs another one meanwhile."""
    hosted = opened(catalog)

    def changed(stored: Stored) -> Stored:
        hosted.log.configure(expire_after=stored.revision + 1.0)
        return msgspec.structs.replace(stored, revision=stored.revision + 1)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: hosted.change(changed), range(20)))
    assert catalog.read("shop").revision == hosted.log.settings.expire_after == 20
    hosted.close()


def test_readers_never_learn(catalog: Catalog) -> None:
    reader = Hosted("shop", catalog, learns=False)
    rewarded(reader, 2)
    assert reader.step() == 0 and not reader.leads
    first = opened(catalog)
    first.step()
    reader.step()
    assert reader.rounds == 2
    first.close()
    reader.close()


def test_a_new_bandit_has_a_model_before_the_learner_has_looked(catalog: Catalog) -> None:
    hosted = opened(catalog)
    assert lim2.from_bytes(hosted.model_file()).rounds == 0
    hosted.close()


def test_a_bandit_whose_learner_has_published_nothing_has_a_model_and_takes_arms(catalog: Catalog) -> None:
    spec = BanditSpec(arms=["a"], algorithm="LinearTS")
    catalog.create("banner", Stored(spec=spec, created=0.0, log=catalog.log_name("banner", 0)))
    learner, other = (Hosted("banner", catalog, publish_every=0.0) for _ in range(2))
    learner._stand()  # it has the right to learn, and has not looked yet
    other.step()
    assert (learner.leads, other.leads) == (True, False) and other.log.model() is None
    assert lim2.from_bytes(other.model_file()).arms == ("a",)
    assert arms.add(other, "b", None, None) == (True, ["a", "b"])
    learner.step()
    other.step()
    assert learner.decider.arms == other.decider.arms == ("a", "b")
    learner.close()
    other.close()


def test_a_log_is_not_opened_for_a_bandit_that_was_deleted_since_it_was_read(catalog: Catalog) -> None:
    stored = catalog.read("shop")
    catalog.delete("shop")
    with pytest.raises(NoBanditError):
        catalog.open_log("shop", stored)
    assert catalog.page("", 10, {}) == []


def test_a_log_that_cannot_be_opened_is_opened_later(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    hosted = opened(catalog)
    hosted.step()
    catalog.change("shop", lambda stored: msgspec.structs.replace(stored, log=catalog.log_name("shop", 1), revision=1))

    def away(name: str, stored: Stored) -> Any:
        raise StoreUnavailableError(f"{name}/{stored.log} cannot be reached")

    with monkeypatch.context() as patched:
        patched.setattr(catalog, "open_log", away)
        with pytest.raises(StoreUnavailableError):
            hosted.step()
    rewarded(hosted, 1)  # into the old one, which is still there
    hosted.step()
    assert hosted.leads and hosted.log.position == 0
    rewarded(hosted, 1)
    assert hosted.step() == 1
    hosted.close()


def test_those_who_have_a_log_open_are_told_of_another_one(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    if not catalog.tells:
        pytest.skip("a folder tells nobody: one has to look")
    hosted, told = opened(catalog), list[int]()
    monkeypatch.setattr("lim2.serve.catalog.postgres.notify", lambda _, number: told.append(number))
    catalog.change("shop", lambda stored: msgspec.structs.replace(stored, log=catalog.log_name("shop", 1), revision=1))
    guarded: Any = hosted.log.store
    assert told == [guarded.inner.number]
    hosted.close()


def test_each_process_draws_from_a_stream_of_its_own(catalog: Catalog) -> None:
    first, second = opened(catalog), opened(catalog)
    draws = [[hosted.decider.decide({}, ITEMS).arm for _ in range(60)] for hosted in (first, second)]
    assert (draws[0] != draws[1]) == catalog.shared  # in a folder, a seed gives the same decisions again
    first.step()
    second.step()
    draws = [[hosted.decider.decide({}, ITEMS).arm for _ in range(60)] for hosted in (first, second)]
    assert draws[0] != draws[1]  # one learns, the other follows
    first.close()
    second.close()


def test_a_snapshot_is_ready_to_decide_before_it_is_swapped_in(catalog: Catalog) -> None:
    hosted = opened(catalog)
    rewarded(hosted, 3)
    assert hosted.step() == 3
    assert "item_model" in vars(hosted.decider.core)
    hosted.close()
