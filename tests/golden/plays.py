"""`python tests/golden/plays.py [AGENT...]`: record what agents play, with every setting, into tests/golden/plays.npz.

A play is a thousand rounds of one agent on one problem. Kept are the arms of all rounds, and the means and variances of
all arms in every twentieth round. The tests play again and compare. Only what is missing is played, and the agents
that are named. Record anew only where a play is meant to change, and then say why in docs/decisions and rerun the kept
results that it touches.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import lim2
from lim2.exploration import Thompson
from lim2.matching import Matching
from lim2.paper.lim2_variants import LiM2Variant
from lim2.representation import MLP, SGD, Adam

Array = NDArray[np.float64]

FILE = Path(__file__).with_name("plays.npz")
ROUNDS, EVERY = 1000, 20
SHAPES = {"statlog": (7, 9), "covertype": (7, 54)}  # arms, features

LIM2: dict[str, dict[str, Any]] = {
    "hidden": {"hidden": (20, 10)},
    "buffer": {"buffer": 100},
    "batch": {"batch": 30},
    "steps": {"steps": 2},
    "initial_pulls": {"initial_pulls": 5},
    "min_propensity": {"epsilon": 0.02 * 7},  # recorded with a floor of 0.02 for each of seven arms
    "prior_precision": {"prior_precision": 0.3},
    "a0": {"a0": 2.0},
    "b0": {"b0": 0.5},
    "learning_rate": {"learning_rate": 0.02},
    "matching sample": {"matching": "sample"},
    "matching solve": {"matching": "solve"},
    "matching none": {"matching": None},
    "matching_rate": {"matching": Matching(rate=10.0)},
    "matching_clip": {"matching": Matching(rate=1.0, clip=0.05)},
    "matching_jitter": {"matching": Matching(jitter=0.001)},
    "matching_ridge": {"matching": Matching("solve", ridge=0.5)},
    "intercept": {"intercept": True},
    "exploration ucb": {"exploration": "ucb"},
    "exploration object": {"exploration": Thompson(temperature=0.5, optimism=0.5)},
    "representation": {"representation": MLP((30,), Adam(0.005))},
    "representation sgd": {"representation": MLP((30,), SGD(0.05, decay=0.01))},
    "standardize": {"standardize": True},
}
# Of the ablation's algorithm; they were recorded as settings of LiM2.
VARIANTS: dict[str, dict[str, Any]] = {
    "refresh": {"refresh": "all"},
    "recount": {"recount": False},
    "noise": {"noise": "buffer"},
    "mean_prior": {"mean_prior": False},
}
SMALL_GRADIENT: dict[str, Any] = {"hidden": 20, "iterations": 50}
OTHERS: dict[str, dict[str, dict[str, Any]]] = {
    "LinearTS": {
        "intercept": {"intercept": False},
        "exploration": {"exploration": "ucb"},
    },
    "NeuralLinear": {
        "phases": {"train_every": 100, "steps": 20},
        "intercept": {"train_every": 100, "steps": 20, "intercept": True},
    },
    "NeuralLinearMM": {},
    "NeuralLinearNaive": {
        "phases": {"train_every": 100, "steps": 20},
    },
    "NeuralLinearNTK": {
        "intercept": {"intercept": True},
    },
    "NeuralUCB": {
        "small": SMALL_GRADIENT,
        "full, batch": {"hidden": 4, "iterations": 10, "training": "batch", "covariance": "full"},
    },
    "NeuralTS": {
        "small": SMALL_GRADIENT,
        "history, standardize": {**SMALL_GRADIENT, "history": 150, "standardize": True, "normalize": False},
    },
    "AdaptiveTS": {
        "linear": {"hidden": ()},
        "reward_range": {"reward_range": (-1.0, 3.0)},
    },
    "ThompsonSampling": {},
    "Uniform": {},
}
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {"LiM2": {**LIM2, **VARIANTS}, **OTHERS}
SMALL: dict[str, dict[str, Any]] = {
    "LiM2": {"buffer": 150},
    "NeuralLinearMM": {"buffer": 150},
    "NeuralLinearNaive": {"buffer": 150},
    "NeuralLinearNTK": {"buffer": 150},
    "NeuralLinear": {"train_every": 100, "steps": 20},
    "NeuralUCB": SMALL_GRADIENT,
    "NeuralTS": {**SMALL_GRADIENT, "history": 150},
}
PARTS = ("arms", "means", "variances")
SLOW = ("NeuralUCB", "NeuralTS")  # with their own settings: played on a problem, not on both shapes besides


class Play(NamedTuple):
    """What is played: an agent with settings on a problem, and whether its arms change on the way."""

    agent: str
    setting: str
    problem: str
    real: bool
    changes_arms: bool = False

    @property
    def name(self) -> str:
        """The name under which the play is kept."""
        return " / ".join((self.agent, self.setting, self.problem + (" data" if self.real else " shape")))


def plays() -> Iterator[Play]:
    """Yield all plays: each agent as it is by default, on data; each setting, and arms that change, on made-up data."""
    for agent, settings in SETTINGS.items():
        for problem in SHAPES:
            if not (agent in SLOW and problem == "covertype"):
                yield Play(agent, "default", problem, real=True)
            for setting in settings:
                yield Play(agent, setting, problem, real=False)
            if agent not in SLOW:
                yield Play(agent, "default", problem, real=False)
        yield Play(agent, "changing arms", "statlog", real=False, changes_arms=True)


def made_up(n_arms: int, n_features: int) -> tuple[Array, Array]:
    """Return contexts and the rewards of all arms: 1 for the right class of a nonlinear problem, plus noise."""
    rng = np.random.default_rng(n_features)
    contexts = rng.normal(size=(ROUNDS, n_features))
    inner, outer = rng.normal(size=(n_features, 12)) / np.sqrt(n_features), rng.normal(size=(12, n_arms))
    scores = np.tanh(2.0 * contexts @ inner) @ outer
    right = scores.argmax(axis=1)
    return contexts, np.eye(n_arms)[right] + 0.05 * rng.normal(size=(ROUNDS, n_arms))


def world(play: Play) -> tuple[Array, Array]:
    """Return contexts and rewards of a play; FileNotFoundError where it needs data that are absent."""
    if not play.real:
        return made_up(*SHAPES[play.problem])
    problem = lim2.problems.load(play.problem, ROUNDS, seed=0)
    return problem.contexts, problem.rewards


def settings_of(play: Play) -> dict[str, Any]:
    """Return the settings of a play."""
    if play.changes_arms:
        return SMALL.get(play.agent, {})
    return {} if play.setting == "default" else SETTINGS[play.agent][play.setting]


def played(play: Play, rounds: int = ROUNDS) -> dict[str, NDArray[Any]]:
    """Play, and return the arms of all rounds, and means and variances of every twentieth."""
    contexts, rewards = (values[:rounds] for values in world(play))
    n_arms = rewards.shape[1]
    names = [f"arm {i}" for i in range(n_arms)]
    kind = LiM2Variant.__name__ if play.agent == "LiM2" and play.setting in VARIANTS else play.agent
    agent: Any = lim2.AGENTS[kind](arms=names, n_features=contexts.shape[1], seed=11, **settings_of(play))
    index = {name: i for i, name in enumerate(names)}
    arms, means, variances = np.zeros(rounds, dtype=np.uint8), [], []
    moments = hasattr(agent, "means") and play.agent != "Uniform"
    for t, (context, earned) in enumerate(zip(contexts, rewards, strict=True)):
        if play.changes_arms:
            change_arms(agent, t, index)
        arm = agent.act(context)
        arms[t] = index[arm]
        if moments and t % EVERY == EVERY - 1:
            row = np.full((2, n_arms + 2), np.nan)
            row[:, : agent.n_arms] = agent.means(context), agent.variances(context)
            means.append(row[0])
            variances.append(row[1])
        agent.update(context, arm, float(earned[index[arm] % n_arms]))
    return {"arms": arms, "means": np.array(means), "variances": np.array(variances)}


def change_arms(agent: Any, t: int, index: dict[str, int]) -> None:
    """Let an arm come from the prior, one come like another, and one go."""
    new = len(index)
    if t == 300:
        index["new"] = new
        agent.add_arm("new")
    elif t == 450:
        index["like"] = new
        agent.add_arm("like", like="arm 1")
    elif t == 600:
        agent.remove_arm("arm 2")


def main() -> None:
    """Play what is missing or named, and keep it."""
    with np.load(FILE) as file:
        before = dict(file)
    kept: dict[str, NDArray[Any]] = {}
    for play in plays():
        names = [f"{play.name} / {part}" for part in PARTS]
        if play.agent in sys.argv[1:] or not all(name in before for name in names):
            print(play.name, file=sys.stderr, flush=True)
            before |= {f"{play.name} / {part}": values for part, values in played(play).items()}
        kept |= {name: before[name] for name in names}
    np.savez_compressed(FILE, allow_pickle=False, **kept)


if __name__ == "__main__":
    main()
