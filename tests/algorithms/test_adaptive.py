"""AdaptiveTS: its scales, its start, its noise, changes, and arms that come and go."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import lim2
from lim2.algorithms import AdaptiveTS, adaptive_ts
from lim2.algorithms.adaptive_ts import State
from lim2.representation.view import MOST_COLUMNS, squared_lengths

N_ARMS, N_FEATURES = 3, 4
SMALL: dict[str, Any] = {"hidden": (6,), "buffer": 40, "seed": 0}


def play(agent: lim2.Agent, rounds: int, columns: Any = 1.0, offset: Any = 0.0, size: float = 1.0) -> list[int]:
    """Play a nonlinear world with columns and rewards of some size; return the arms."""
    rng, arms = np.random.default_rng(0), []
    for context in rng.normal(size=(rounds, N_FEATURES)):
        seen = columns * context + offset
        arm = agent.act(seen)
        agent.update(seen, arm, float(size * (np.sin(context[arm] * context[3]) + 0.1 * arm + 0.1 * rng.normal())))
        arms.append(arm)
    return arms


def test_decisions_do_not_depend_on_the_scale_of_columns_or_rewards() -> None:
    plain = play(lim2.AdaptiveTS(N_ARMS, N_FEATURES, **SMALL), 200)
    scaled = np.array([2.0**30, 2.0**-30, 1.0, 2.0**10])  # powers of 2 round alike
    assert play(lim2.AdaptiveTS(N_ARMS, N_FEATURES, **SMALL), 200, columns=scaled) == plain
    assert play(lim2.AdaptiveTS(N_ARMS, N_FEATURES, **SMALL), 200, size=2.0**20) == plain


def linear_decisions(columns: Any, offset: Any, size: float, origin: float) -> list[int]:
    """Play a world whose numbers are exact in every unit that is a power of 2, without a hidden layer."""
    agent, rng, arms = lim2.AdaptiveTS(3, 3, hidden=(), seed=0), np.random.default_rng(0), []
    for context in np.round(rng.normal(size=(150, 3)) * 1024) / 1024:
        seen = columns * (context + offset)
        arms.append(agent.act(seen))
        reward = np.round((np.sin(2 * context[arms[-1]]) + 0.2 * arms[-1] + 0.3 * rng.normal()) * 1024) / 1024
        agent.update(seen, arms[-1], float(size * (reward + origin)))
    return arms


powers = st.integers(-30, 30).map(lambda power: 2.0**power)  # 1e-9 to 1e9


@settings(max_examples=25)
@given(
    columns=st.tuples(powers, powers, powers),
    offset=st.tuples(*[st.sampled_from([0.0, 1.0, -1000.0, 2.0**30])] * 3),
    size=powers,
    origin=st.sampled_from([0.0, -2.0, 1000.0, -(2.0**20)]),
)
@example(columns=(2.0**30,) * 3, offset=(2.0**30, 0.0, -(2.0**30)), size=2.0**30, origin=2.0**20)
@example(columns=(2.0**-30,) * 3, offset=(2.0**30, 0.0, -(2.0**30)), size=2.0**-30, origin=2.0**20)
def test_linear_decisions_depend_on_no_unit_and_no_origin(
    columns: Any, offset: Any, size: float, origin: float
) -> None:
    usual = linear_decisions(1.0, 0.0, 1.0, 0.0)
    assert linear_decisions(np.array(columns), np.array(offset), size, origin) == usual


def test_numbers_far_from_0_keep_their_digits_for_long() -> None:
    means = []
    for offset in (0.0, 2.0**30):
        rng, agent = np.random.default_rng(5), lim2.AdaptiveTS(2, 2, hidden=(), seed=0)
        for t in range(3000):
            context = np.round(rng.normal(size=2) * 1024) / 1024
            reward = float(np.round((context[0] - context[1] * (t % 2) + 0.1 * rng.normal()) * 1024) / 1024)
            agent.update(context + offset, t % 2, reward + offset)
        means.append(agent.means(np.array([[0.5, 0.25], [-1.0, 2.0]]) + offset) - offset)
    np.testing.assert_allclose(means[1], means[0], atol=2e-6)  # 2^30 has steps of 2e-7


def test_equal_rewards_are_played_by_chance_from_any_origin() -> None:
    """Where all rewards are equal, the width of a draw must not vanish beside them."""

    def played(reward: float) -> list[int]:
        agent, arms = lim2.AdaptiveTS(3, 2, hidden=(), seed=0), []
        for context in np.random.default_rng(0).normal(size=(120, 2)):
            arms.append(agent.act(context))
            agent.update(context, arms[-1], reward)
        return arms

    assert played(0.0) == played(1.0) == played(-1e25) == played(1e-25)
    assert set(played(0.0)[24:]) == {0, 1, 2}


def test_a_column_that_varies_by_rounding_alone_changes_nothing() -> None:
    rng, means = np.random.default_rng(3), []
    rows = np.column_stack((rng.normal(size=300), np.full(300, 1.7e18)))
    for steps in (0, 8):
        agent = lim2.AdaptiveTS(2, 2, hidden=(), seed=0)
        rows[0, 1] += 256.0 * steps  # units in the last place
        agent.update(rows, np.arange(300) % 2, 5.0 + rows[:, 0])
        means.append(agent.means(rows))
    np.testing.assert_array_equal(means[1], means[0])


def test_a_constant_column_changes_little_and_breaks_nothing() -> None:
    agent = lim2.AdaptiveTS(N_ARMS, N_FEATURES, **SMALL)
    play(agent, 100, columns=np.array([1.0, 1.0, 0.0, 1.0]), offset=np.array([0.0, 0.0, 1e9, 0.0]))
    assert agent.state.view.scaling.factor[2] == 0.0
    assert np.isfinite(agent.means(np.array([0.0, 0.0, 1e9, 0.0]))).all()
    assert np.abs(agent.means(np.array([0.0, 0.0, 1.0, 0.0]))).max() < 100.0  # a value that was never learned from


def test_the_moments_are_those_of_everything_learned_from() -> None:
    agent, rng = lim2.AdaptiveTS(N_ARMS, N_FEATURES, **SMALL), np.random.default_rng(1)
    contexts, rewards = rng.normal(3.0, 2.0, (130, N_FEATURES)), rng.normal(size=130)
    for context, reward in zip(contexts, rewards, strict=True):
        agent.update(context, 0, reward)
    state = cast(State, agent.state)
    assert state.moments is not None
    n = state.refitted
    np.testing.assert_allclose(state.moments.mean, contexts[:n].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(state.moments.std, contexts[:n].std(axis=0), rtol=1e-12)
    np.testing.assert_allclose((state.rewards.mean, state.rewards.scale), (rewards[:n].mean(), rewards[:n].std()))


def test_memory_and_refits_are_bounded() -> None:
    agent = lim2.AdaptiveTS(N_ARMS, N_FEATURES, change_threshold=np.inf, **SMALL)
    for _ in range(3):
        play(agent, 200)
        assert agent.state.memory.held <= 45  # an eighth more than the buffer, between refits
    assert agent.state.refits < 150
    assert agent.state.evicted.weight.sum() + agent.state.memory.held == agent.rounds  # each tuple counts once


def test_the_start_is_wider_where_there_are_many_arms() -> None:
    def deviation(n_arms: int) -> float:
        agent, rng = lim2.AdaptiveTS(n_arms, 2, hidden=(4,), seed=0), np.random.default_rng(0)
        for context in rng.normal(size=(60, 2)):
            agent.update(context, 0, float(rng.normal()))
        return float(np.sqrt(agent.variances(np.zeros(2))[1]) / agent.state.rewards.scale)

    assert deviation(24) > 1.5 * deviation(3)


def test_the_start_does_not_shrink_with_the_noise() -> None:
    agent, rng = lim2.AdaptiveTS(1, 2, hidden=(4,), seed=0), np.random.default_rng(0)
    for context in rng.normal(size=(400, 2)):
        agent.update(context, 0, float(context[0]))  # no noise at all
    state = agent.state
    sums = [state.memory.contexts[: state.memory.held], state.memory.rewards[: state.memory.held]]
    Z = cast(AdaptiveTS, agent.algorithm).features(state.view, sums[0])
    noise = state.full.b[0] / state.full.a[0]
    precision = np.linalg.inv(state.full.cov[0]) - Z.T @ Z
    lengths = squared_lengths(Z, 4)
    np.testing.assert_allclose(precision.diagonal() / noise, lengths / state.rewards.scale**2, rtol=0.2)


@pytest.mark.parametrize(("n_arms", "turns"), [(2, 12), (7, 3), (30, 2)])
def test_few_arms_take_more_turns(n_arms: int, turns: int) -> None:
    assert AdaptiveTS(n_arms, 2).turns == turns
    assert AdaptiveTS(n_arms, 2, initial_pulls=5).turns == 5


def test_equal_rewards_do_not_make_an_arm_certain() -> None:
    agent, rng = lim2.AdaptiveTS(2, 2, hidden=(4,), seed=0), np.random.default_rng(0)
    for context in rng.normal(size=(60, 2)):
        agent.update(context, 0, 0.0)  # nothing but zeros
        agent.update(context, 1, float(rng.random() < 0.5))
    scale = agent.algorithm.score(agent.state, np.zeros(2)).scale
    assert scale[0] > 0.2 * scale[1]


def world(t: int, rounds: int, context: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.eye(3, 6) if t < rounds // 2 else -np.eye(3, 6)
    return weights @ context


@pytest.mark.parametrize("hidden", [20, 100])
def test_it_forgets_what_a_change_made_wrong(hidden: int) -> None:
    def earned(**settings: Any) -> tuple[float, int]:
        agent, rng, rounds = lim2.AdaptiveTS(3, 6, hidden=hidden, seed=0, **settings), np.random.default_rng(3), 1400
        total = 0.0
        for t, context in enumerate(rng.normal(size=(rounds, 6))):
            arm = agent.act(context)
            reward = float(world(t, rounds, context)[arm] + 0.1 * rng.normal())
            agent.update(context, arm, reward)
            total += reward if t >= rounds // 2 else 0.0
        return total, agent.state.changes

    with_test, changes = earned()
    without, none = earned(change_threshold=np.inf)
    assert changes >= 1
    assert none == 0
    assert with_test > 1.3 * without


def test_a_world_that_stays_is_not_forgotten() -> None:
    agent, rng = lim2.AdaptiveTS(3, 6, hidden=20, seed=0), np.random.default_rng(3)
    for context in rng.normal(size=(1000, 6)):
        arm = agent.act(context)
        agent.update(context, arm, float(context[arm] + 0.5 * rng.normal()))
    assert agent.state.changes == 0


def test_a_range_of_rewards_makes_it_look_for_what_it_has_never_seen() -> None:
    def found(**settings: Any) -> int:
        agent, rng = lim2.AdaptiveTS(3, 2, hidden=10, seed=0, **settings), np.random.default_rng(5)
        hits = 0
        for context in rng.uniform(-1, 1, size=(1500, 2)):
            arm = agent.act(context)
            hit = arm == 2 and context[0] > 0.9
            agent.update(context, arm, 50.0 if hit else 1.0 + 0.2 * (arm == 0) + 0.01 * rng.normal())
            hits += hit
        return hits

    assert found(reward_range=(0.0, 50.0)) > 30 > found()


def test_of_many_columns_the_most_frequent_are_features_by_themselves() -> None:
    columns = MOST_COLUMNS + 40
    agent, rng = lim2.AdaptiveTS(2, columns, hidden=5, buffer=400, seed=0), np.random.default_rng(0)
    assert agent.state.linear.mu.shape == (2, MOST_COLUMNS + 1)
    for _ in range(300):
        context = (rng.random(columns) < 0.02).astype(float)
        context[-1] = rng.random() < 0.5  # the last column is the frequent one that matters
        arm = agent.act(context)
        agent.update(context, arm, float(arm == context[-1]))
    assert agent.state.view.order[0] == columns - 1
    rewards = [float(agent.act(np.eye(columns)[-1] * bit) == bit) for bit in (0.0, 1.0) * 10]
    assert np.mean(rewards) > 0.8
    assert lim2.AdaptiveTS(2, MOST_COLUMNS, hidden=5).state.view.order is None


def clicked(rounds: int, rate: float, seed: int, **settings: Any) -> lim2.Agent:
    """Play clicks whose favourites change half-way if ``settings`` say so; return the agent."""
    rng, changes = np.random.default_rng(seed), settings.pop("changes", False)
    agent = lim2.AdaptiveTS(4, 6, seed=seed, **settings)
    for t in range(rounds):
        kind = int(rng.integers(4))
        context = np.append(np.eye(4)[kind], rng.normal(size=2))
        arm = agent.act(context)
        favourite = (kind + (changes and t >= rounds // 2)) % 4
        agent.update(context, arm, float(rng.random() < (2.0 if arm == favourite else 0.67) * rate))
    return agent


@pytest.mark.parametrize("seed", [0, 1])
def test_rare_clicks_are_no_change(seed: int) -> None:
    assert clicked(5000, 0.03, seed).state.changes == 0


def test_a_change_of_frequent_clicks_is_detected() -> None:
    assert clicked(5000, 0.3, 0, changes=True).state.changes >= 1


def test_late_zeros_are_no_change_in_the_order_of_arrival() -> None:
    """Clicks come after a few rounds, zeros after 200; the agent recognises its decisions."""
    rng, waiting = np.random.default_rng(5), []
    agent = lim2.AdaptiveTS(3, 2, hidden=(8,), seed=5)
    for t in range(3000):
        context = rng.normal(size=2)
        arm = agent.act(context)
        reward = float(rng.random() < (0.2, 0.3, 0.6)[arm])
        waiting.append((t + (3 if reward else 200), t, context, arm, reward))
        for lesson in [lesson for lesson in waiting if lesson[0] <= t]:
            waiting.remove(lesson)
            agent.update(*lesson[2:])
    assert agent.state.changes == 0
    assert agent.state.delays.before >= 190


def test_a_reward_of_unknown_order_is_never_recent() -> None:
    agent = lim2.AdaptiveTS(2, 1, seed=0)
    context = np.ones(1)
    arms = [agent.act(context) for _ in range(4)]  # equal decisions cannot be told apart
    for arm in arms:
        agent.update(context, arm, 1.0)
    assert agent.state.memory.stamps[:4].tolist() == [0, 0, 0, 0]
    agent.update(context, 0, 1.0, decided=7)
    assert agent.state.delays.newest == 7
    with pytest.raises(ValueError, match="decided"):
        agent.update(context, 0, 1.0, decided=-1)


def test_an_outlier_moves_beliefs_little() -> None:
    def means(outlier: float) -> Any:
        agent, rng = lim2.AdaptiveTS(2, 2, hidden=(), seed=0), np.random.default_rng(1)
        for t, context in enumerate(rng.normal(size=(600, 2))):
            reward = float(context[0] * (t % 2) + 0.3 * rng.normal()) + (outlier if t == 200 else 0.0)
            agent.update(context, t % 2, reward)
        return agent.means(np.array([[1.0, 0.0], [-1.0, 0.0]]))

    np.testing.assert_allclose(means(1e4), means(0.0), atol=0.2)


def test_useless_columns_narrow_the_prior() -> None:
    rng = np.random.default_rng(0)
    useless, useful = (lim2.AdaptiveTS(3, 20, seed=0, hidden=()) for _ in range(2))
    for t, context in enumerate(rng.normal(size=(900, 20))):
        useless.update(context, t % 3, float(rng.random() < 0.3 + 0.1 * (t % 3)))
        useful.update(context, t % 3, float(context[t % 3] > 0.0))
    assert useless.state.width.context <= 1 / 16 < 1 / 4 <= useful.state.width.context


def test_arms_that_are_alike_narrow_the_prior_of_the_constant() -> None:
    rng = np.random.default_rng(0)
    alike, apart = (lim2.AdaptiveTS(6, 2, seed=0, hidden=()) for _ in range(2))
    for t, context in enumerate(rng.normal(size=(1200, 2))):
        alike.update(context, t % 6, float(rng.random() < 0.3))
        apart.update(context, t % 6, float(t % 6 > 2))
    assert alike.state.width.constant <= 1 / 16 < 1 / 4 <= apart.state.width.constant


def test_an_arm_without_a_click_yet_is_not_taken_for_one_without_noise() -> None:
    agent, rng = lim2.AdaptiveTS(2, 2, seed=0, hidden=()), np.random.default_rng(0)
    for t, context in enumerate(rng.normal(size=(900, 2))):
        unlucky = t % 20 == 0
        agent.update(context, int(unlucky), 0.0 if unlucky else float(rng.random() < 0.05))
    noise = agent.state.linear.b / agent.state.linear.a
    assert noise[1] > 0.6 * noise[0]


def test_a_change_of_rare_clicks_is_found_by_a_longer_look() -> None:
    agent, rng = lim2.AdaptiveTS(2, 2, seed=0, hidden=()), np.random.default_rng(3)
    for t, context in enumerate(rng.normal(size=(6000, 2))):
        arm = t % 2
        if t == 4000:
            assert agent.state.changes == 0
        agent.update(context, arm, float(rng.random() < (0.10 if (arm == 0) == (t < 4000) else 0.02)))
    assert agent.state.changes == 1


def test_one_arm_may_change_alone() -> None:
    agent, rng = lim2.AdaptiveTS(4, 4, seed=0, hidden=()), np.random.default_rng(1)
    for t, context in enumerate(rng.normal(size=(3000, 4))):
        arm = t % 4
        agent.update(context, arm, float((context[arm] > 0.0) == (arm < 3 or t < 2000)))
    weights = agent.state.evicted.weight
    assert agent.state.changes >= 1
    assert weights[3] < 0.5 * weights[:3].min()


def test_the_buffer_is_bounded_after_a_change_in_a_large_batch() -> None:
    agent, rng = lim2.AdaptiveTS(2, 2, seed=0, hidden=(), buffer=100), np.random.default_rng(0)
    for sign in (1.0, -1.0):
        contexts, arms = rng.normal(size=(2000, 2)), rng.integers(2, size=2000)
        agent.update(contexts, arms, sign * contexts[np.arange(2000), arms], batch=2000)
    assert agent.state.changes == 1
    assert agent.state.memory.held <= 100
    assert agent.state.evicted.weight.sum() + agent.state.memory.held == pytest.approx(2000, abs=20)


def test_without_a_hidden_layer_it_is_linear() -> None:
    agent, rng, right = lim2.AdaptiveTS(3, 3, hidden=(), seed=0), np.random.default_rng(0), 0
    for context in rng.normal(size=(600, 3)):
        arm = agent.act(context)
        right += arm == context.argmax()
        agent.update(context, arm, float(context[arm]) + 0.1 * float(rng.normal()))
    assert agent.state.full is None
    assert right > 480  # chance: 200


@pytest.mark.parametrize("hidden", [(), (6,)])
@pytest.mark.parametrize("like", [None, 1])
def test_a_new_arm_starts_in_the_scale_of_the_others(like: int | None, hidden: Any) -> None:
    agent = lim2.AdaptiveTS(N_ARMS, N_FEATURES, **{**SMALL, "hidden": hidden})
    play(agent, 100, size=1e6)
    context = np.ones(N_FEATURES)
    agent.add_arm(3, like=like)
    means, stds = agent.means(context), np.sqrt(agent.variances(context))
    if like is None:
        assert means[3] == pytest.approx(agent.state.rewards.mean)
        assert stds[3] > 1e5
    else:
        assert (means[3], stds[3]) == (means[1], stds[1])
    agent.remove_arm(0)
    play(agent, 30, size=1e6)
    assert np.isfinite(agent.means(context)).all()


def test_an_arm_can_come_when_nothing_is_left_in_the_buffer() -> None:
    agent = lim2.AdaptiveTS(2, 2, seed=0)
    agent.update(np.eye(2), [0, 0], [1e3, 2e3])
    agent.remove_arm(0)
    agent.add_arm("new")
    np.testing.assert_allclose(agent.means(np.zeros(2)), agent.state.rewards.mean)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"reward_range": (1.0, 0.0)}, "the smaller one first"),
        ({"reward_range": (1.0,)}, "reward_range must be the smallest and the largest"),
        ({"reward_range": 3.0}, "reward_range must be the smallest and the largest"),
        ({"reward_range": (0.0, np.inf)}, "reward_range"),
        ({"train_every": 0}, "train_every"),
        ({"temperature": -1.0}, "temperature"),
        ({"change_threshold": np.nan}, "change_threshold"),
        ({"buffer": 0}, "buffer"),
        ({"initial_pulls": -1}, "initial_pulls"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lim2.AdaptiveTS(N_ARMS, N_FEATURES, **wrong)


def lead_after(rewards: Any, rounds: int = 900, **settings: Any) -> float:
    """Return the lead of the linear beliefs after some rounds of noisy rewards, each a function of the context."""
    agent, rng = lim2.AdaptiveTS(2, N_FEATURES, seed=0, **settings), np.random.default_rng(3)
    for context in rng.normal(size=(rounds, N_FEATURES)):
        arm = agent.act(context)
        agent.update(context, arm, float(rewards(context, arm) + 0.5 * rng.normal()))
    return cast(State, agent.state).lead


def test_the_linear_beliefs_lead_where_rewards_are_linear_and_not_where_they_are_not() -> None:
    assert lead_after(lambda x, arm: x[arm]) > adaptive_ts.LEAD_RANGE
    assert lead_after(lambda x, arm: 2.0 * np.abs(x[arm])) < 0.0


def test_the_scores_are_those_of_the_beliefs_that_lead() -> None:
    agent = lim2.AdaptiveTS(N_ARMS, N_FEATURES, **SMALL)
    play(agent, 100)
    how, state, x = cast(AdaptiveTS, agent.algorithm), cast(State, agent.state), np.ones(N_FEATURES)
    scores = {lead: how.score(state._replace(lead=lead), x) for lead in (-1e9, 5.0, 1e9)}
    z = how.features(state.view, x[None])[0]
    assert state.full is not None
    assert state.linear is not None
    np.testing.assert_allclose(state.full.mu @ z, scores[-1e9].mean)
    np.testing.assert_allclose(state.linear.mu @ z[how.network.width :], scores[1e9].mean)
    for name in ("mean", "scale"):  # a lead of 5 is half of the way
        low, between, high = (getattr(scores[lead], name) for lead in scores)
        np.testing.assert_allclose(between, 0.5 * (low + high))


def test_where_contexts_are_no_features_the_linear_beliefs_do_not_count() -> None:
    class NetworkAlone(AdaptiveTS):
        linear = 0

    agent = lim2.Agent(NetworkAlone(n_arms=2, n_features=N_FEATURES, seed=0, hidden=4))
    for context in np.random.default_rng(0).normal(size=(200, N_FEATURES)):
        agent.update(context, agent.act(context), float(context[0]))
    assert cast(State, agent.state).lead == 0.0
