"""One bandit in several places: it is learned in one, and decides in others by the snapshots that are posted."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.waiting import until
from serve.learning import learn, learner_of
from serve.stores import over_all

import lim2
from lim2.log import StoreUnavailableError
from lim2.serve import arms
from lim2.serve.bandits import DecidingBandit
from lim2.serve.catalog import Catalog, NoBanditError, open_catalog
from lim2.serve.config import Config, load
from lim2.serve.deciding import decide
from lim2.serve.spec import BanditSpec, Stored

ITEMS = {"a": {"kind": "x"}, "b": {"kind": "y"}}

pytestmark = over_all


@pytest.fixture
def config(tmp_path: Path, store: str | None) -> Config:
    return load(environment={}, given={"data": str(tmp_path), "synchronous": "normal", "store": store})


@pytest.fixture
def catalog(config: Config) -> Iterator[Catalog]:
    made = open_catalog(config)
    made.create("shop", Stored(spec=BanditSpec(seed=0), created=0.0, log=made.log_name("shop", 0)))
    yield made
    made.close()


def rewarded(bandit: DecidingBandit, count: int) -> None:
    async def play() -> None:
        for _ in range(count):
            made = await decide(bandit, {}, ITEMS, None)
            await bandit.log.areward(made.id, float(made.arm == "a"))

    asyncio.run(play())


def means(bandit: DecidingBandit) -> Any:
    return bandit.decider.decide({}, ITEMS, exploit=True).means.tolist()


def test_one_learns_and_the_others_follow_until_one_takes_over(config: Config, catalog: Catalog) -> None:
    other = open_catalog(config)  # as another process does
    first, second = learner_of(catalog), learner_of(other)
    decider = DecidingBandit("shop", catalog)
    rewarded(decider, 5)
    assert (learn(first), second.step()) == (5, 0)
    assert [own.opened["shop"].leads for own in (first, second)] == [True, False]
    decider.follow()
    assert (decider.rounds, decider.lag) == (5, 0)
    rewarded(decider, 3)
    first.close()  # with three rewards that it has not learned
    assert until(lambda: learn(second), "the other one takes over") == 3
    decider.follow()
    assert decider.rounds == 8
    third = DecidingBandit("shop", catalog)
    assert third.rounds == 8 and means(third) == means(decider)
    for own in (second, decider, third, other):
        own.close()


def test_what_decides_is_the_model_that_the_log_gives(catalog: Catalog) -> None:
    decider, learner = DecidingBandit("shop", catalog), learner_of(catalog)
    rewarded(decider, 40)
    learn(learner)
    decider.follow()
    again = lim2.Bandit(seed=0)
    assert decider.log.replay(again) == decider.rounds == 40
    for bandit in (again, decider.model()):
        assert bandit.decide({}, ITEMS, exploit=True).means.tolist() == pytest.approx(means(decider), rel=1e-12)
    learner.close()
    decider.close()


def test_a_new_description_reaches_all_and_the_old_model_decides_until_the_new_one_has_caught_up(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    decider, learner = DecidingBandit("shop", catalog), learner_of(catalog)
    rewarded(decider, 6)
    learn(learner)
    decider.follow()
    monkeypatch.setattr("lim2.serve.learning.MIN_REWARDS", 2)
    monkeypatch.setattr("lim2.serve.learning.STEP_SECONDS", 0.0)

    def changed(stored: Stored) -> Stored:
        other = msgspec.structs.replace(stored.spec, algorithm="LinearTS")
        return msgspec.structs.replace(stored, spec=other, revision=1)

    decider.change(changed)
    before = decider.decider
    assert learner.step() == 2
    decider.follow()
    assert decider.decider is before
    assert learn(learner) == 4
    decider.follow()
    assert decider.rounds == 6 and decider.decider is not before and "LinearTS" in repr(decider.model())
    learner.close()
    decider.close()


def test_events_from_which_nothing_is_learned_are_behind_the_model_too(catalog: Catalog) -> None:
    """Such as decisions without a reward: else the model would lag forever, and its log could not be pruned."""
    decider, learner = DecidingBandit("shop", catalog), learner_of(catalog)
    rewarded(decider, 1)
    assert learn(learner) == 1
    made = asyncio.run(decide(decider, {}, ITEMS, None))
    decider.log.discard(made.id)
    assert learn(learner) == 0
    decider.follow()
    assert decider.lag == 0 and decider.position == decider.log.position == 2
    learner.close()
    model = decider.log.model()
    assert model is not None and model.position == 2
    decider.close()


def test_many_change_a_description_at_the_same_time(catalog: Catalog) -> None:
    """More than there are connections, and each needs another one meanwhile."""
    decider = DecidingBandit("shop", catalog)

    def changed(stored: Stored) -> Stored:
        decider.log.configure(expire_after=stored.revision + 1.0)
        return msgspec.structs.replace(stored, revision=stored.revision + 1)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: decider.change(changed), range(20)))
    assert catalog.read("shop").revision == decider.log.settings.expire_after == 20
    decider.close()


def test_a_bandit_of_which_nothing_was_posted_has_a_model_and_takes_arms(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = BanditSpec(arms=["a"], algorithm="LinearTS")
    catalog.create("banner", Stored(spec=spec, created=0.0, log=catalog.log_name("banner", 0)))
    decider, learner = DecidingBandit("banner", catalog), learner_of(catalog)
    assert lim2.from_bytes(decider.model_file()).arms == ("a",)
    monkeypatch.setattr("lim2.serve.bandits.PATIENCE", 0.0)  # nobody learns meanwhile
    assert arms.add(decider, "b", None, None) == (True, ["a", "b"])
    shown = [decider.decider.arms]
    learn(learner)
    decider.follow()
    assert [*shown, decider.decider.arms] == [("a",), ("a", "b")]
    learner.close()
    decider.close()


def test_a_log_is_not_opened_for_a_bandit_that_was_deleted_since_it_was_read(catalog: Catalog) -> None:
    stored = catalog.read("shop")
    catalog.delete("shop")
    with pytest.raises(NoBanditError):
        catalog.open_log("shop", stored)
    assert catalog.page("", 10, {}) == []


def test_a_log_that_cannot_be_opened_is_opened_later(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    decider = DecidingBandit("shop", catalog)
    catalog.change("shop", lambda stored: msgspec.structs.replace(stored, log=catalog.log_name("shop", 1), revision=1))

    def away(name: str, stored: Stored) -> Any:
        raise StoreUnavailableError(f"{name}/{stored.log} cannot be reached")

    with monkeypatch.context() as patched:
        patched.setattr(catalog, "open_log", away)
        with pytest.raises(StoreUnavailableError):
            decider.follow()
    rewarded(decider, 1)  # into the old one, which is still there
    decider.follow()
    assert decider.log.position == 0
    rewarded(decider, 1)
    learner = learner_of(catalog)
    assert learn(learner) == 1
    learner.close()
    decider.close()


def test_snapshots_of_a_log_that_a_bandit_has_no_more_are_followed_by_those_of_its_new_one(catalog: Catalog) -> None:
    decider, learner = DecidingBandit("shop", catalog), learner_of(catalog)
    rewarded(decider, 5)
    learn(learner)
    decider.follow()
    catalog.change("shop", lambda stored: msgspec.structs.replace(stored, log=catalog.log_name("shop", 1), revision=1))
    decider.follow()
    rewarded(decider, 2)
    assert learn(learner) == 2
    decider.follow()
    assert (decider.rounds, decider.position, decider.lag) == (2, 2, 0)
    learner.close()
    decider.close()


def test_each_process_draws_from_a_stream_of_its_own(catalog: Catalog) -> None:
    first, second = DecidingBandit("shop", catalog), DecidingBandit("shop", catalog)

    def draws() -> list[list[Any]]:
        return [[own.decider.decide({}, ITEMS).arm for _ in range(60)] for own in (first, second)]

    assert len(set(map(tuple, draws()))) == 2
    learner = learner_of(catalog)
    rewarded(first, 1)
    learn(learner)
    first.follow()
    second.follow()
    assert len(set(map(tuple, draws()))) == 2
    for own in (first, second, learner):
        own.close()


def test_a_snapshot_is_ready_to_decide_before_it_is_swapped_in(catalog: Catalog) -> None:
    decider, learner = DecidingBandit("shop", catalog), learner_of(catalog)
    rewarded(decider, 3)
    learn(learner)
    decider.follow()
    assert decider.rounds == 3 and "item_model" in vars(decider.decider.core)
    learner.close()
    decider.close()


def test_what_was_closed_does_not_follow_any_more(catalog: Catalog) -> None:
    decider, learner = DecidingBandit("shop", catalog), learner_of(catalog)
    rewarded(decider, 1)
    learn(learner)
    decider.close()
    assert decider.follow() is None and decider.rounds == 0
    learner.close()


def test_the_whole_model_is_saved_at_the_end_and_not_with_each_snapshot(catalog: Catalog) -> None:
    decider, learner = DecidingBandit("shop", catalog), learner_of(catalog)
    for _ in range(3):
        rewarded(decider, 2)
        learn(learner)
    assert decider.log.model() is None and catalog.board.latest("shop", 0) is not None
    learner.close()
    saved = decider.log.model()
    assert saved is not None and (saved.version, lim2.from_bytes(saved.data).rounds) == (1, 6)
    decider.close()
