"""LinearTS(scaled=True): against the oracle, against direct regression, and in any scale and from any origin."""

import copy
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracle.scaled_linear_ts import OracleScaledLinearTS

import lim2
from lim2.algorithms import AdaptiveTS, LinearTS
from lim2.algorithms.linear_ts import State
from lim2.exploration import UCB, Thompson
from lim2.representation.scaling import scaled
from lim2.state import Writes, written

Float = NDArray[np.float64]

N_ARMS, N_FEATURES, ROUNDS = 4, 5, 400
TOLERANCE = 1e-8


def state_of(agent: lim2.Agent) -> State:
    return cast(State, agent.state)


def rewards_of(context: Float, rng: np.random.Generator, n_arms: int) -> Float:
    """Return the rewards of arms that differ in which columns count."""
    clean = np.array([np.sin(context[arm % 3]) + 0.3 * context[(arm + 1) % 3] for arm in range(n_arms)])
    return 50.0 + 7.0 * (clean + 0.3 * rng.normal(size=n_arms))


# Against the oracle


@pytest.mark.parametrize(
    ("n_arms", "given"),
    [
        (N_ARMS, {}),
        (N_ARMS, {"forget": 0.02}),
        (15, {"initial_pulls": 1}),  # many arms: a wider start
        (N_ARMS, {"exploration": "thompson"}),
    ],
    ids=str,
)
def test_it_agrees_with_the_oracle(n_arms: int, given: dict[str, Any]) -> None:
    agent = lim2.LinearTS(n_arms, N_FEATURES, scaled=True, seed=3, **given)
    plain = {"temperature": 1.0, "optimism": 0.0} if "exploration" in given else {}
    oracle = OracleScaledLinearTS(
        n_arms, N_FEATURES, initial_pulls=agent.algorithm.turns, forget=given.get("forget", 0.0), **plain
    )
    world = np.random.default_rng(7)
    for t in range(ROUNDS):
        context = world.normal(size=N_FEATURES) * [1.0, 1e-3, 300.0, 0.0, 1.0] + [0.0, 2.0, 1e4, 3.0, 0.0]
        context[4] = float(t > 60 and t % 9 == 0)  # varies late, and rarely
        draws = copy.deepcopy(agent._streams.act).standard_t(2.0 * agent.state.posterior.a)
        arm = agent.act(context)
        assert arm == oracle.act(context, draws), f"decision of round {t}"
        plain_context = (context - [0.0, 2.0, 1e4, 3.0, 0.0]) / [1.0, 1e-3, 300.0, 1.0, 1.0]
        reward = 50.0 if t < 5 else float(rewards_of(plain_context, world, n_arms)[arm])  # at first nothing varies
        agent.update(context, arm, reward)
        oracle.update(context, arm, reward)
        if t % 10 == 0 or t == ROUNDS - 1:
            state = state_of(agent)
            assert state.rewards is not None
            mu = state.posterior.mu + np.append(np.zeros(N_FEATURES), state.rewards.center)
            for name, fast in (("mu", mu), *((part, getattr(state.posterior, part)) for part in ("cov", "a", "b"))):
                slow = getattr(oracle, name)
                np.testing.assert_allclose(fast, slow, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"{name} of round {t}")
            assert state.renewed == pytest.approx(oracle.renewed, rel=1e-12)
    assert oracle.renewals == ROUNDS if "forget" in given else 40 < oracle.renewals < 100, oracle.renewals


# Against direct regression


@pytest.mark.parametrize("forget", [0.0, 0.01])
@pytest.mark.parametrize("rounds", [1, 2, 17, 100, 400])
def test_beliefs_are_those_of_a_regression_on_all_tuples_in_the_scales_in_use(rounds: int, forget: float) -> None:
    rng = np.random.default_rng(rounds)
    contexts = rng.normal([0.0, 1e4, -5.0], [1e-3, 300.0, 2.0], size=(rounds, 3))
    arms, rewards = np.arange(rounds) % 2, rng.normal(1e3, 5.0, size=rounds) + contexts[:, 2]
    weights = (1.0 - forget) ** np.arange(rounds - 1, -1, -1.0)
    agent = lim2.LinearTS(2, 3, scaled=True, forget=forget, seed=0)
    agent.update_many(contexts, arms, rewards)
    state = state_of(agent)
    assert state.scaling is not None and state.rewards is not None
    new, s, m = rng.normal([0.0, 1e4, -5.0], [1e-3, 300.0, 2.0], size=(5, 3)), state.rewards.scale, state.rewards.center
    varying = max(int(np.count_nonzero(state.scaling.factor)), 1)
    precision: Float = np.diag([varying, varying, varying, 1.0])  # c is 1
    for arm in (0, 1):
        own = arms == arm
        Z, z = (np.column_stack([scaled(state.scaling, x), np.ones(len(x))]) for x in (contexts[own], new))
        r, w = rewards[own] - m, weights[own]
        cov = np.linalg.inv(precision + Z.T @ (w[:, None] * Z))
        mu = cov @ Z.T @ (w * r)
        a = 15.0 + 0.5 * w.sum()
        b = 15.0 * s**2 + 0.5 * (w @ (r - Z @ mu) ** 2 + mu @ precision @ mu)
        np.testing.assert_allclose(agent.means(new)[:, arm], m + z @ mu, rtol=1e-9)
        expected = b / (a - 1.0) * np.vecdot(z @ cov, z)
        np.testing.assert_allclose(agent.variances(new)[:, arm], expected, rtol=1e-8)


@pytest.mark.parametrize("forget", [0.0, 0.02])
def test_the_scales_are_the_moments_of_everything_learned_from(forget: float) -> None:
    rng, n = np.random.default_rng(1), 300
    contexts, rewards = rng.normal(3.0, 2.0, (n, 3)), rng.normal(-2e9, 4.0, n)
    agent = lim2.LinearTS(2, 3, scaled=True, forget=forget, seed=0)
    agent.update_many(contexts, np.arange(n) % 2, rewards)
    state, w = state_of(agent), (1.0 - forget) ** np.arange(n - 1, -1, -1.0)
    assert state.moments is not None and state.rewards is not None
    np.testing.assert_allclose(state.moments.mean, np.average(contexts, axis=0, weights=w), rtol=1e-11)
    centre, offset, squares = state.rewards.center, state.rewards.offset, state.rewards.squares
    places = rewards + 2e9
    mean = np.average(places, weights=w)
    assert (centre + 2e9) + offset == pytest.approx(mean, abs=1e-11)
    assert squares == pytest.approx(w @ (places - mean) ** 2, rel=1e-9)
    assert abs(centre + 2e9 - mean) < 1.0
    assert state.rewards.scale == pytest.approx(np.sqrt(squares / w.sum()), rel=0.1)


# In any scale, from any origin


def decisions(
    columns: Float, offsets: Float, size: float, origin: float, forget: float = 0.0, late: int = 0, rounds: int = 150
) -> list[int]:
    """Play a world whose numbers are exact in every scale that is a power of 2; return the arms."""
    rng = np.random.default_rng(0)
    agent = lim2.LinearTS(3, 3, scaled=True, forget=forget, seed=0)
    out = []
    for t in range(rounds):
        context = np.round(rng.normal(size=3) * 1024) / 1024
        seen = columns * (context + offsets)
        arm = agent.act(seen)
        reward = np.round((np.sin(2 * context[arm]) + 0.2 * arm + 0.3 * rng.normal()) * 1024) / 1024
        agent.update(seen, arm, float(size * ((reward if t >= late else 0.0) + origin)))
        out.append(arm)
    return out


@pytest.fixture(scope="module")
def usual() -> dict[tuple[float, int], list[int]]:
    """Return the decisions in the usual scale, by the share that is forgotten and when rewards begin to vary."""
    ones, none = np.ones(3), np.zeros(3)
    return {(forget, late): decisions(ones, none, 1.0, 0.0, forget, late) for forget in (0.0, 0.01) for late in (0, 40)}


powers = st.integers(-30, 30).map(lambda power: 2.0**power)  # 1e-9 to 1e9
origins = st.sampled_from([0.0, 1.0, -2.0, 1000.0, -(2.0**20), 2.0**30])

LARGE, SMALL, FAR = (2.0**30,) * 3, (2.0**-30,) * 3, (2.0**30, 0.0, -(2.0**30))


@settings(max_examples=25)
@given(
    columns=st.tuples(powers, powers, powers),
    offsets=st.tuples(origins, origins, origins),
    size=powers,
    origin=origins,
    forget=st.sampled_from([0.0, 0.01]),
    late=st.sampled_from([0, 40]),
)
@example(columns=LARGE, offsets=FAR, size=2.0**30, origin=2.0**30, forget=0.0, late=0)
@example(columns=SMALL, offsets=FAR, size=2.0**-30, origin=2.0**30, forget=0.01, late=0)
@example(columns=LARGE, offsets=FAR, size=2.0**30, origin=0.0, forget=0.0, late=40)
@example(columns=SMALL, offsets=FAR, size=2.0**-30, origin=2.0**30, forget=0.01, late=40)
def test_decisions_depend_on_no_scale_and_no_origin(
    usual: dict[tuple[float, int], list[int]],
    columns: Any,
    offsets: Any,
    size: float,
    origin: float,
    forget: float,
    late: int,
) -> None:
    same = decisions(np.array(columns), np.array(offsets), size, origin, forget, late)
    assert same == usual[forget, late]


@settings(max_examples=15)
@given(
    columns=st.tuples(*[st.floats(-9.0, 9.0)] * 3), size=st.floats(-9.0, 9.0), origin=st.sampled_from([0.0, -3.0, 1e5])
)
def test_decisions_depend_on_scales_that_round_otherwise_no_more(
    usual: dict[tuple[float, int], list[int]], columns: Any, size: float, origin: float
) -> None:
    assert decisions(10.0 ** np.array(columns), np.array([0.0, 7.0, -1e4]), 10.0**size, origin) == usual[0.0, 0]


def test_a_world_in_which_nothing_varies_is_played_by_chance_from_any_origin() -> None:
    """Where all rewards are equal, the size of the scale must not vanish beside them."""

    def played(reward: float) -> list[int]:
        agent, arms = lim2.LinearTS(3, 2, scaled=True, seed=0), []
        for context in np.random.default_rng(0).normal(size=(120, 2)):
            arms.append(agent.act(context))
            agent.update(context, arms[-1], reward)
        return arms

    assert played(0.0) == played(1.0) == played(-1e25) == played(1e-25)
    assert set(played(0.0)[24:]) == {0, 1, 2}


def test_rewards_and_columns_keep_their_digits_for_long() -> None:
    """An origin of 1e9 deviations, over many renewals: beliefs are those from an origin of 0."""
    means = []
    for offset in (0.0, 2.0**30):
        rng, agent = np.random.default_rng(5), lim2.LinearTS(2, 2, scaled=True, seed=0)
        for t in range(3000):
            context = np.round(rng.normal(size=2) * 1024) / 1024
            reward = float(np.round((context[0] - context[1] * (t % 2) + 0.1 * rng.normal()) * 1024) / 1024)
            agent.update(context + offset, t % 2, reward + offset)
        means.append(agent.means(np.array([[0.5, 0.25], [-1.0, 2.0]]) + offset) - offset)
    np.testing.assert_allclose(means[1], means[0], atol=1e-6)  # 2^30 has steps of 2e-7


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_reward_far_outside_renews_the_scale_at_once(noise: float) -> None:
    agent, rng = lim2.LinearTS(2, 2, scaled=True, seed=0), np.random.default_rng(0)
    contexts = rng.uniform(-1.0, 1.0, size=(205, 2))
    agent.update_many(contexts, np.arange(205) % 2, noise * rng.choice([-1.0, 1.0], size=205))
    before, usual = state_of(agent), agent.copy()
    usual.update([0.0, 0.0], 0, noise)
    assert state_of(usual).renewed == before.renewed, "this round is there to renew nothing by itself"
    agent.update([0.0, 0.0], 0, 1e6)
    after = state_of(agent)
    assert before.rewards is not None and after.rewards is not None
    assert before.rewards.scale == pytest.approx(noise or 1.0, rel=0.1)
    assert after.renewed == 206.0
    assert after.rewards.scale == pytest.approx(1e6 / np.sqrt(206), rel=0.01)


@pytest.mark.parametrize("wrong", [{"scale": 1e-40}, {"scale": 1e40}, {"center": -1e40}, {"offset": 1e40}], ids=str)
def test_loaded_rewards_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    how, agent = LinearTS(2, 2, scaled=True), lim2.LinearTS(2, 2, scaled=True, seed=0)
    agent.update([1.0, 2.0], 0, 3.0)
    state = state_of(agent)
    assert state.rewards is not None
    how.check(state)
    with pytest.raises(ValueError, match=r"of (the )?rewards"):
        how.check(state._replace(rewards=state.rewards._replace(**wrong)))


def test_a_column_that_begins_to_vary_counts_in_the_start() -> None:
    agent, rng = lim2.LinearTS(2, 2, scaled=True, seed=0), np.random.default_rng(0)
    for x in rng.normal(size=40):
        agent.update([x, 8.0], 0, x)
    one = state_of(agent).posterior.cov[1].diagonal()
    agent.update([0.0, 9.0], 0, 0.0)
    two = state_of(agent).posterior.cov[1].diagonal()
    np.testing.assert_allclose(one, [1.0, 1.0, 1.0], rtol=1e-12)
    np.testing.assert_allclose(two, [0.5, 0.5, 1.0], rtol=1e-12)


def test_between_renewals_only_the_rows_of_the_played_arm_change() -> None:
    how, rng = LinearTS(3, 2, scaled=True), np.random.default_rng(0)
    state = how.init(3, rng)
    kinds = []
    for t in range(60):
        context, reward = rng.uniform(-1, 1, size=2), float(rng.uniform(-1, 1))
        new, _ = how.learn(state, context, t % 3, reward, rng)
        kinds.append(isinstance(new, Writes))
        if isinstance(new, Writes):
            assert {arm for _, arm, _ in new.rows} == {t % 3}
            assert len(new.rows) == 8
        state = written(new) if isinstance(new, Writes) else new
    assert kinds[:16] == [False] * 16
    assert sum(kinds[20:]) > 15


# Arms that come


@pytest.mark.parametrize("like", [None, 1])
def test_a_new_arm_starts_in_the_scale_of_the_others(like: int | None) -> None:
    agent, rng = lim2.LinearTS(2, 2, scaled=True, seed=0), np.random.default_rng(0)
    for t, context in enumerate(rng.normal(size=(100, 2))):
        agent.update(context, t % 2, 1e6 * (3.0 + context[0] + 0.1 * rng.normal()))
    context, state = np.ones(2), state_of(agent)
    assert state.rewards is not None
    agent.add_arm("new", like=like)
    means, scales = agent.means(context), agent.algorithm.score(agent.state, context).scale
    if like is None:
        assert means[2] == state.rewards.center
        z = state_of(agent).scaling
        assert z is not None
        length = float(np.sum(scaled(z, context) ** 2)) / 2.0
        assert scales[2] == pytest.approx(state.rewards.scale * np.sqrt(1.0 + length))
    else:
        assert (means[2], scales[2]) == (means[1], scales[1])


# Settings


def test_settings_that_are_not_given_are_those_of_the_kind_of_start() -> None:
    plain, own, neural = LinearTS(4, 2), LinearTS(4, 2, scaled=True), AdaptiveTS(4, 2)
    assert (plain.turns, plain.policy) == (2, Thompson())
    assert (own.turns, own.policy) == (neural.turns, neural.policy) == (6, Thompson(0.1, 0.4))
    assert LinearTS(30, 2, scaled=True).turns == 2
    given = LinearTS(4, 2, scaled=True, initial_pulls=0, exploration="thompson")
    assert (given.turns, given.policy) == (0, Thompson())
    assert LinearTS(4, 2, scaled=True, exploration="ucb").policy == UCB()
    assert repr(lim2.LinearTS(4, 2, scaled=True)) == "LinearTS(n_arms=4, n_features=2, scaled=True)"


def test_scaled_implies_standardize() -> None:
    contexts = np.random.default_rng(0).normal(size=(60, 2))
    one, both = (lim2.LinearTS(2, 2, scaled=True, standardize=also, seed=0) for also in (False, True))
    for agent in (one, both):
        agent.update_many(contexts, np.arange(60) % 2, contexts[:, 0])
    np.testing.assert_array_equal(one.means(contexts), both.means(contexts))


@pytest.mark.parametrize("name", ["prior_precision", "a0", "b0"])
def test_a_start_of_ones_own_is_refused(name: str) -> None:
    own: dict[str, Any] = {name: 1.0}
    with pytest.raises(ValueError, match=f"{name} cannot be used with scaled=True"):
        lim2.LinearTS(2, 2, scaled=True, **own)
    lim2.LinearTS(2, 2, **own)


def test_it_needs_its_intercept() -> None:
    with pytest.raises(ValueError, match="scaled=True needs intercept=True"):
        lim2.LinearTS(2, 2, scaled=True, intercept=False)
