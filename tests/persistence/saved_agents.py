"""Small agents of every kind; `python tests/persistence/saved_agents.py FOLDER [NAME ...]` writes their files.

Beside each file it writes what the agent does after loading. The tests load the files of every format ever released;
those of a released format are never written again. So this is run once for a new format, into a new folder
``tests/data/agents-vN``; and with its name for a new agent.
"""

import json
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lim2
from lim2.exploration import UCB
from lim2.matching import Matching
from lim2.paper.lim2_variants import LiM2Variant
from lim2.representation import MLP, SGD, Adam

N_ARMS, N_FEATURES, N_TOKENS, LENGTH = 3, 2, 20, 6
ROUNDS = 25
NETWORK: dict[str, Any] = {"hidden": (4,), "batch": 6}
BUFFER: dict[str, Any] = {**NETWORK, "buffer": 12}
VARIANT = LiM2Variant.__name__  # lim2 0.2 wrote its files under the name LiM2
PHASES: dict[str, Any] = {**NETWORK, "train_every": 10, "steps": 3}
OWN: dict[str, Any] = {
    "representation": MLP((5, 4), Adam(0.01)), "batch": 6, "buffer": 12, "matching": Matching("sample", rate=0.1),
    "intercept": True, "steps": 2, "standardize": True,
}  # fmt: skip
SAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "linear-ts": ("LinearTS", {}),
    "linear-ts-ucb": ("LinearTS", {"exploration": UCB(2.0), "intercept": False}),
    "neural-linear": ("NeuralLinear", PHASES),
    "lim2": ("LiM2", BUFFER),
    "lim2-matching": ("LiM2", OWN),
    "lim2-sample": (VARIANT, {**BUFFER, "matching": "sample", "steps": 2, "noise": "buffer", "epsilon": 0.15}),
    "lim2-counts-once": (VARIANT, {"representation": MLP(4, SGD(0.05)), "batch": 6, "buffer": 12, "recount": False}),
    "lim2-new": ("LiM2", {**BUFFER, "matching": None, "exploration": "ucb"}),
    "neural-linear-mm": ("NeuralLinearMM", BUFFER),
    "neural-linear-naive": ("NeuralLinearNaive", {**BUFFER, "train_every": 5}),
    "neural-linear-ntk": ("NeuralLinearNTK", BUFFER),
    "neural-ucb": ("NeuralUCB", {"hidden": 4, "iterations": 10}),
    "neural-ts": ("NeuralTS", {"hidden": 2, "iterations": 10, "covariance": "full", "history": 15}),
    "neural-ts-scaled": ("NeuralTS", {"hidden": 3, "iterations": 5, "training": "batch", "standardize": True}),
    "adaptive-ts": ("AdaptiveTS", {"hidden": 4, "buffer": 16, "change_threshold": 0.0, "initial_pulls": 2}),
    "adaptive-ts-own": (
        "AdaptiveTS",
        {"representation": MLP((4, 3), Adam(0.01)), "reward_range": (-1.0, 2.0), "buffer": 8},
    ),
    "adaptive-ts-linear": ("AdaptiveTS", {"hidden": (), "buffer": 8}),
    "thompson-sampling": ("ThompsonSampling", {}),
    "uniform": ("Uniform", {}),
}
NEW = ("lim2-new",)  # has not learned anything
NAMED = ("linear-ts-ucb", "uniform")
CHANGED = ("adaptive-ts", "linear-ts", "lim2-sample", "lim2-matching", "neural-ts")  # arms have come and gone
CONVERTED = ("linear-ts-any-scale", "linear-ts-forgets", "linear-ts-scaled")  # files of settings that are gone
NAMES = ("red", ("a", 1), 7.5)
TEXTS = ("lim2-text", "adaptive-ts-text") if find_spec("torch") else ()


def contexts_of(agent: lim2.Agent, rows: int, seed: int) -> NDArray[Any]:
    """Return contexts that an agent takes: standard normal, or token ids."""
    rng = np.random.default_rng(seed)
    if agent.algorithm.takes_floats:
        return rng.normal(size=(rows, *agent.context_shape)).round(3)
    return rng.integers(0, N_TOKENS, size=(rows, *agent.context_shape))


def reward_of(context: NDArray[Any], arm: int) -> float:
    return float(context[0] * (arm == 0) + context[1] * (arm == 1)) / 20.0 + 0.3


def play(agent: lim2.Agent, contexts: NDArray[Any]) -> list[int]:
    """Decide and learn; return the indices of the arms."""
    chosen = []
    for context in contexts:
        arm = agent.act(context)
        chosen.append(agent.arms.index(arm))
        agent.update(context, arm, reward_of(context, chosen[-1]))
    return chosen


def make(name: str, seed: int | None = 5) -> lim2.Agent:
    """Return a sample."""
    if name in TEXTS:
        agent = _text_agent(dict(zip(TEXTS, ("LiM2", "AdaptiveTS"), strict=True))[name], seed)
    else:
        kind, settings = SAMPLES[name]
        arms = {"arms": NAMES} if name in NAMED else {"n_arms": N_ARMS}
        agent = lim2.AGENTS[kind](**arms, n_features=N_FEATURES, seed=seed, **settings)
    if name not in NEW:
        play(agent, contexts_of(agent, ROUNDS // 2, 3))
        if name in CHANGED:
            agent.add_arm("new", like=agent.arms[0])
            agent.remove_arm(agent.arms[1])
        play(agent, contexts_of(agent, ROUNDS - ROUNDS // 2, 4))
    agent.metadata["sample"] = [name, {"rounds": agent.rounds, "nothing": None}]
    return agent


def _text_agent(kind: str, seed: int | None) -> lim2.Agent:
    from lim2.representation import TextCNN, Torch

    net = TextCNN(N_TOKENS, LENGTH, embedding=4, widths=(2, 3), filters=3, width=5, seed=0)
    batch = {} if kind == "AdaptiveTS" else {"batch": 4}
    return lim2.AGENTS[kind](2, representation=Torch(net, 5, Adam(0.01)), buffer=8, seed=seed, **batch)


def expected(agent: lim2.Agent) -> dict[str, Any]:
    """Return what a loaded agent does: its beliefs, then decisions while it goes on learning, and beliefs again."""
    contexts = contexts_of(agent, 8, 7)
    believes = agent.name != "Uniform"
    before = agent.means(contexts).tolist() if believes else []
    decisions = play(agent, np.tile(contexts, (3, 1)))
    after = agent.means(contexts).tolist() if believes else []
    served = [agent.arms.index(arm) for arm in agent.snapshot().act_many(contexts)]
    return {"before": before, "decisions": decisions, "after": after, "served": served, "metadata": agent.metadata}


def main(folder: Path, names: Iterable[str]) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        agent = make(name)
        agent.save(folder / f"{name}.lim2")
        (folder / f"{name}.json").write_text(json.dumps(expected(agent), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or SAMPLES)
