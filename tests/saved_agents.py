"""`python tests/saved_agents.py FOLDER [NAME ...]`: write a small file of every agent, and what it does after loading.

The tests load the files of every format ever released; those of a released format are never written again. So this is
run once for a new format, into a new folder ``tests/data/agents-vN``; and with its name for a new agent.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lim2
from lim2.exploration import UCB
from lim2.representation import MLP, Adam

N_ARMS, N_FEATURES = 3, 2
NETWORK: dict[str, Any] = {"hidden": (4,), "batch": 6}
SAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "linear-ts": ("LinearTS", {}),
    "linear-ts-ucb": ("LinearTS", {"exploration": UCB(2.0), "intercept": False}),
    "neural-linear": ("NeuralLinear", {**NETWORK, "train_every": 10, "steps": 3}),
    "lim2": ("LiM2", {**NETWORK, "buffer": 12}),
    "lim2-own": (
        "LiM2",
        {
            "representation": MLP((5, 4), Adam(0.01)), "batch": 6, "buffer": 12, "recount": False, "matching": "solve",
            "refresh": "all", "intercept": True, "recompute_every": 2, "recompute_share": 0.5,
        },
    ),
    "neural-linear-mm": ("NeuralLinear-MM", {**NETWORK, "buffer": 12}),
    "neural-linear-naive": ("NeuralLinear-Naive", {**NETWORK, "buffer": 12}),
    "neural-linear-ntk": ("NeuralLinear-NTK", {**NETWORK, "buffer": 12}),
    "neural-ucb": ("NeuralUCB", {"hidden": 4, "iterations": 10}),
    "neural-ts": ("NeuralTS", {"hidden": 2, "iterations": 10, "covariance": "full", "history": 15}),
    "transport-ts": ("LiM2-Transport", {**NETWORK, "buffer": 12}),
    "uniform": ("Uniform", {}),
}  # fmt: skip
CONTEXTS: NDArray[np.float64] = np.random.default_rng(7).normal(size=(8, N_FEATURES)).round(3)


def reward_of(context: NDArray[np.float64], arm: int) -> float:
    return float(context[0] * (arm == 0) + context[1] * (arm == 1) + 0.3)


def expected(agent: lim2.Agent) -> dict[str, Any]:
    """Return what a loaded agent does: its beliefs, then decisions while it goes on learning, and beliefs again."""
    beliefs = getattr(agent, "means", None)
    before = [] if beliefs is None else beliefs(CONTEXTS).tolist()
    decisions = []
    for context in np.tile(CONTEXTS, (3, 1)):
        arm = agent.act(context)
        agent.update(context, arm, reward_of(context, arm))
        decisions.append(arm)
    after = [] if beliefs is None else beliefs(CONTEXTS).tolist()
    served = agent.snapshot().act_many(CONTEXTS).tolist()
    return {"before": before, "decisions": decisions, "after": after, "served": served, "metadata": agent.metadata}


def make(name: str) -> lim2.Agent:
    kind, settings = SAMPLES[name]
    agent = lim2.AGENTS[kind](N_ARMS, N_FEATURES, seed=5, **settings)
    for context in np.random.default_rng(3).normal(size=(25, N_FEATURES)).round(3):
        arm = agent.act(context)
        agent.update(context, arm, reward_of(context, arm))
    agent.metadata["sample"] = name
    return agent


def main(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        agent = make(name)
        agent.save(folder / f"{name}.lim2")
        (folder / f"{name}.json").write_text(json.dumps(expected(agent), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or SAMPLES)
