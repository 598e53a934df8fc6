"""What is computed once for several rows, or left out because it is always 0, changes no score and no decision."""

import pickle
from typing import Any

import numpy as np
import pytest
from items.shop import Float, every_agent, items_of, played, user_of

import lim2
from lim2 import ItemAgent
from lim2.algorithms.adaptive_ts import ForItems, State
from lim2.deciding import Question
from lim2.decision import Decision
from lim2.exploration import sqrt_posterior
from lim2.items import ItemDecider, beside
from lim2.representation.crossing import Crossing

N_CONTEXT, N_ITEM, SILENT = 20, 24, 6  # of which so many columns are always the same
SIZES = (5, 1, 5, 20, 5, 2, 5, 5, 5, 5)  # of the candidates of several decisions


@every_agent
@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_several_decisions_as_one_are_those_one_after_the_other(variant: str, epsilon: float) -> None:
    agent = played(variant, epsilon=epsilon)
    one, other = agent.copy().snapshot(), agent.copy().snapshot()
    questions = [
        Question(tuple(range(k)), beside(user_of(place), items_of(k, place)), exploit=place == 4)
        for place, k in enumerate(SIZES)
    ]
    together = one.core.decide_many(questions)
    apart = list(map(other.core.decide, questions))
    assert [made.arm for made in together] == [made.arm for made in apart]
    assert [made.exploit for made in together] == [place == 4 for place in range(len(SIZES))]
    for first, second in zip(together, apart, strict=True):
        same(first, second)
    same(one.core.decide_many(questions[:1])[0], other.core.decide(questions[0]))
    assert one.act(user_of(99), items_of(3)) == other.act(user_of(99), items_of(3)), "they have drawn as much"


def same(first: Decision, second: Decision) -> None:
    assert (first.arm, first.arms) == (second.arm, second.arms)
    for part in ("means", "stds", "propensities"):
        np.testing.assert_allclose(getattr(first, part), getattr(second, part), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("context", "item"), [(3, 4), (20, 24), (150, 30), (30, 150)])
def test_products_with_one_context_are_those_of_any_rows(context: int, item: int) -> None:
    crossing, rng = Crossing(context, item), np.random.default_rng(0)
    rows = rng.normal(size=(7, context + item))
    rows[:, :context] = rows[0, :context]
    np.testing.assert_allclose(crossing.in_one_context(rows), crossing(rows), rtol=1e-12, atol=1e-12)
    assert crossing.exact == (context == 3)


def wide(algorithm: str, **settings: Any) -> ItemAgent:
    """Return an agent of many columns, some of which have never varied; with products that share columns."""
    agent: Any = lim2.AGENTS[algorithm](n_features=N_CONTEXT, n_item_features=N_ITEM, seed=0, **settings)
    for t in range(60):
        user, items = question(t)
        place = agent.act(user, items)
        agent.update(user, items[place], float(user[0] * items[place, 0]))
    assert isinstance(agent, ItemAgent)
    return agent


def question(t: int, k: int = 4) -> tuple[Float, Float]:
    rng = np.random.default_rng(t)
    user, items = rng.normal(size=N_CONTEXT), rng.normal(size=(k, N_ITEM))
    user[:SILENT], items[:, -SILENT:] = 0.5, 0.0
    return user, items


@pytest.mark.parametrize("algorithm", ["AdaptiveTS", "LinearTS", "LiM2"])
def test_a_snapshot_in_another_process_says_the_same(algorithm: str) -> None:
    agent = wide(algorithm)
    here, there = agent.snapshot(), pickle.loads(pickle.dumps(agent.snapshot()))
    user, items = question(99)
    rows = np.concatenate([beside(user, items), beside(*question(98))])
    for one, other in zip(here.core.posterior(rows), there.core.posterior(rows), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    np.testing.assert_allclose(here.propensities(user, items), there.propensities(user, items), rtol=1e-9, atol=1e-12)
    state = [own.core.state.model for own in (here, there)]
    one, other = (agent.algorithm.joint_covariance(own, rows) for own in state)
    np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-12)
    assert there.act(user, items, joint=True) in range(4)
    if algorithm == "AdaptiveTS":
        assert isinstance(state[1], ForItems) and there.core.item_model is state[1]
        assert len(pickle.dumps(there)) < 0.6 * len(pickle.dumps(agent))


def test_columns_that_never_varied_are_left_out_of_a_snapshot() -> None:
    agent = wide("AdaptiveTS")
    assert_same_scores(agent)
    scored_by = agent.snapshot().core.item_model
    assert isinstance(scored_by, ForItems)
    state, width = agent.state, agent.state.evicted.cross.shape[1]
    assert scored_by.full is not None
    assert scored_by.full.root.shape == (1, width - 2 * SILENT, width - 2 * SILENT)
    rows = beside(*question(1000))
    for lead in (-1.0, 0.0, 5.0, 1000.0):  # by the beliefs with the hidden layer, by both, by those without
        whole = agent.algorithm.score(state._replace(lead=lead), rows)
        part = agent.algorithm.score_items(scored_by._replace(lead=lead), rows, 1)
        for one, other in zip(whole, part, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11)


def test_a_snapshot_of_any_agent_scores_as_the_agent_does() -> None:
    for agent in (played("AdaptiveTS", 60), wide("LinearTS"), wide("AdaptiveTS", hidden=())):
        assert_same_scores(agent)
    agent = played("AdaptiveTS", 60)
    every = agent.snapshot().core.item_model  # every column varies, and none is left out
    assert isinstance(every, ForItems) and len(every.features) == agent.state.evicted.cross.shape[1]
    fresh: Any = lim2.AdaptiveTS(n_features=N_CONTEXT, n_item_features=N_ITEM, seed=0)
    assert isinstance(fresh.state, State) and isinstance(
        fresh.snapshot().core.item_model, ForItems
    )  # nothing has varied
    assert_same_scores(fresh)


def assert_same_scores(agent: ItemAgent) -> None:
    snapshot: ItemDecider = agent.snapshot()
    for seed in range(3):
        user, items = question(500 + seed, 6)
        rows = beside(user[: agent.n_features], items[:, : agent.n_item_features])
        for one, other in zip(snapshot.core.scores(rows), agent.core.scores(rows), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_a_root_without_features_has_the_variances_of_the_whole() -> None:
    """Also where rows of the root that belong to them reach the others."""
    rng, kept = np.random.default_rng(0), np.array([True, False, True, True, False])
    whole = sqrt_posterior.prior(1, 5, 1.0, 6.0, 6.0)._replace(
        mu=rng.normal(size=(1, 5)), root=rng.normal(size=(1, 5, 5))
    )
    z = rng.normal(size=(3, 5)) * kept
    for one, other in zip(
        sqrt_posterior.score(whole, z),
        sqrt_posterior.score(sqrt_posterior.of_features(whole, kept), z[:, kept]),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert sqrt_posterior.of_features(whole, kept).root.shape == (1, 3, 3)
    assert not np.tril(sqrt_posterior.of_features(whole, kept).root[0], -1).any()
