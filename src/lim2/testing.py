"""Check that an algorithm keeps the rules that agents, logs and services rely on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lim2.agent import Agent
from lim2.agents import AGENTS, agent_of
from lim2.algorithms import Algorithm
from lim2.loading import load
from lim2.memory import Memory
from lim2.persistence.container import LoadError

N_ARMS, N_FEATURES, ROUNDS = 3, 4, 40

Array = NDArray[np.float64]
Maker = Callable[[], Agent]


def check_algorithm(algorithm: type[Algorithm] | Callable[..., Agent], **settings: Any) -> None:
    """Raise an AssertionError that names the first rule which an algorithm breaks.

    Parameters
    ----------
    algorithm
        Class of the algorithm, or a function that makes agents of it from ``n_arms``, ``n_features`` and ``seed``.
        Files are checked if it is registered (:func:`lim2.register`).
    **settings
        Settings of the algorithm. Small networks and buffers make the check quick.

    Examples
    --------
    >>> import lim2
    >>> check_algorithm(lim2.algorithms.LinearTS)
    >>> check_algorithm(lim2.algorithms.LiM2, hidden=6, buffer=15, batch=8)
    """
    maker: Callable[..., Any] = algorithm
    if isinstance(algorithm, type) and issubclass(algorithm, Algorithm):
        maker = agent_of(algorithm)

    def make() -> Agent:
        return cast(Agent, maker(N_ARMS, N_FEATURES, seed=0, **settings))

    for rule, check in RULES.items():
        try:
            check(make)
        except AssertionError as error:
            detail = f": {error}" if str(error) else ""
            raise AssertionError(f"{make().name} breaks the rule “{rule}”{detail}") from error


def contexts(n: int, seed: int = 0) -> Array:
    """Return n contexts with numbers between -1 and 1."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, N_FEATURES))


def play(agent: Agent, rounds: int = ROUNDS, seed: int = 0) -> list[Any]:
    """Let an agent play, with rewards of 0 and 1, and return its arms."""
    arms = []
    for context in contexts(rounds, seed):
        arms.append(agent.act(context))
        agent.update(context, arms[-1], float(context[agent.arms.index(arms[-1])] > 0))
    return arms


def _repeats(make: Maker) -> None:
    one, other = make(), make()
    assert play(one) == play(other), "two agents with one seed chose different arms"
    assert _same(_whole(one), _whole(other)), "two agents with one seed learned different states"


def _pure(make: Maker) -> None:
    agent = make()
    play(agent)
    algorithm, state = agent.algorithm, agent.state
    before = _values(state)
    for arm, context in enumerate(contexts(N_ARMS, seed=1)):
        try:
            algorithm.score(state, context)
            algorithm.learn(state, context, arm, 1.0, np.random.default_rng(arm))
        except ValueError as error:
            assert "read-only" not in str(error), error
            raise
        assert _same(before, _values(state)), "score or learn wrote to the state"


def _refuses(make: Maker) -> None:
    agent, good = make(), np.zeros(N_FEATURES)
    play(agent)
    before = _whole(agent)
    for context, arm, reward in (
        (np.full(N_FEATURES, np.nan), 0, 1.0),
        (np.zeros(N_FEATURES + 1), 0, 1.0),
        (good, N_ARMS, 1.0),
        (good, 0, float("nan")),
        (good, 0, float("inf")),
    ):
        try:
            agent.update(context, arm, reward)
        except (ValueError, TypeError):
            assert _same(_whole(agent), before), "input that was refused changed the state"
        else:
            raise AssertionError(f"update took the context {context}, arm {arm} and reward {reward}")


def _copies(make: Maker) -> None:
    agent = make()
    play(agent)
    copy, before = agent.copy(), _whole(agent)
    play(copy, seed=1)
    assert _same(_whole(agent), before), "a copy that learned changed the original"


def _rows(make: Maker) -> None:
    agent, rows = make(), contexts(5, seed=2)
    play(agent)
    for values in (agent.means, agent.variances):
        together, alone = values(rows), np.array([values(row) for row in rows])
        np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-12, err_msg="rows differ from single contexts")
    assert (np.isnan(agent.variances(rows)) | (agent.variances(rows) >= 0)).all(), "a variance is negative"


def _chances(make: Maker) -> None:
    agent = make()
    play(agent)
    with suppress(NotImplementedError):  # an exploration may not know them
        decision = agent.decide(contexts(1, seed=3)[0])
        assert abs(float(np.sum(decision.propensities)) - 1.0) < 1e-6, "propensities do not sum to 1"
        assert 0.0 < decision.propensity <= 1.0, "the chosen arm has no propensity"


def _arms(make: Maker) -> None:
    agent = make()
    play(agent)
    before = _whole(agent)
    try:
        agent.add_arm("new")
    except NotImplementedError:
        assert _same(_whole(agent), before), "arms cannot be added, and the state changed"
        return
    agent.update(np.zeros(N_FEATURES), "new", 1.0)
    agent.remove_arm("new")
    assert agent.arms == tuple(range(N_ARMS)), "arms are not those of before"
    assert np.shape(agent.means(np.zeros(N_FEATURES))) == (N_ARMS,), "the state has another number of arms"


def _files(make: Maker) -> None:
    agent = make()
    if agent.name not in AGENTS:
        return
    play(agent)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "agent.lim2")
        agent.save(path)
        network = agent.get_params().get("representation")
        try:
            loaded = load(path)
        except LoadError:
            if network is None:
                raise
            loaded = load(path, representation=network)  # a file cannot describe a network of the user's
    assert isinstance(loaded, Agent) and loaded.to_bytes() == agent.to_bytes(), "a loaded agent is another one"
    assert play(loaded, seed=4) == play(agent, seed=4), "a loaded agent plays otherwise"


RULES: dict[str, Callable[[Maker], None]] = {
    "the same seed gives the same decisions": _repeats,
    "a function never writes to a state that it is given": _pure,
    "bad input is an error that changes nothing": _refuses,
    "a copy shares nothing with the original": _copies,
    "rows of contexts are scored like single ones": _rows,
    "propensities are those of a distribution": _chances,
    "arms come and go, or an error says that they cannot": _arms,
    "a saved agent goes on as if it had not been saved": _files,
}


def _whole(agent: Agent) -> Any:
    """Return all that an agent has learned."""
    return _values((agent.state, agent.pulls, agent.rounds, agent.arms))


def _values(tree: Any) -> Any:
    """Return the values of a state in arrays of their own; of a memory, what it holds."""
    if isinstance(tree, Memory):
        tree = tree.canonical()
    if isinstance(tree, np.ndarray):
        return tree.copy()
    if isinstance(tree, dict):
        return {key: _values(value) for key, value in tree.items()}
    return tuple(map(_values, tree)) if isinstance(tree, tuple) else tree


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return bool(one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one is other or bool(one == other)
