"""Small agents of every kind, with the settings that change how a round goes: the common suite runs on all of them."""

import os
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

import lim2
from examples import own_algorithm
from helpers.torch_variants import torch_variants
from lim2.matching import Matching
from lim2.paper.lim2_variants import LiM2Variant

N_ARMS, N_FEATURES = 3, 4
NAMES = ("red", ("a", 1), 7)  # a string, a tuple, and a number that is not an index

EXAMPLE = "an algorithm of one's own"
VARIANT = LiM2Variant.__name__  # of the ablation

NETWORK: dict[str, Any] = {"hidden": (6,), "batch": 8}
BUFFER: dict[str, Any] = {**NETWORK, "buffer": 15}
PHASES: dict[str, Any] = {"train_every": 20, "steps": 5}
GRADIENT: dict[str, Any] = {"hidden": 6, "iterations": 20}
BEYOND: dict[str, Any] = {"matching": "solve", "recount": False, "refresh": "all", "intercept": True, "noise": "buffer"}
ADAPTIVE: dict[str, Any] = {"hidden": (6,), "buffer": 15, "initial_pulls": 2}

SMALL: dict[str, dict[str, Any]] = {
    "LinearTS": {},
    "NeuralLinear": {**NETWORK, **PHASES},
    "LiM2": BUFFER,
    "NeuralLinearMM": BUFFER,
    "NeuralLinearNaive": BUFFER,
    "NeuralUCB": GRADIENT,
    "NeuralTS": GRADIENT,
    "NeuralLinearNTK": BUFFER,
    "AdaptiveTS": ADAPTIVE,
    "ThompsonSampling": {},
    "Uniform": {},
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, settings) for name, settings in SMALL.items()} | {
    "LiM2 past the paper": (VARIANT, {**BUFFER, **BEYOND}),
    "LiM2 by sample": ("LiM2", {**BUFFER, "matching": "sample", "steps": 2}),
    "LiM2 by UCB": ("LiM2", {**BUFFER, "exploration": "ucb", "matching": Matching(rate=0.5, clip=1.0)}),
    "NeuralTS by batch": (
        "NeuralTS",
        {"hidden": 6, "iterations": 5, "training": "batch", "covariance": "full", "history": 20},
    ),
    "AdaptiveTS that often detects a change": (
        "AdaptiveTS",
        {**ADAPTIVE, "change_threshold": 0.0, "train_every": 1, "reward_range": (-2.0, 3.0)},
    ),
    "AdaptiveTS, linear": (
        "AdaptiveTS",
        {**ADAPTIVE, "hidden": (), "buffer": 40, "change_threshold": 1e9},
    ),
    "LiM2, standardized": ("LiM2", {**BUFFER, "standardize": True}),
    "NTK, standardized": ("NeuralLinearNTK", {**BUFFER, "standardize": True}),
    "NeuralLinear, standardized": ("NeuralLinear", {**NETWORK, **PHASES, "standardize": True}),
    "Naive in phases": ("NeuralLinearNaive", {**BUFFER, **PHASES}),
    "NeuralTS, standardized": ("NeuralTS", {**GRADIENT, "standardize": True}),
    EXAMPLE: (own_algorithm.LinUCB.__name__, {}),  # of docs/research/adding-an-algorithm.md
    **torch_variants(N_FEATURES),
}
BUFFERED = ("LiM2", "NeuralLinearMM", "NeuralLinearNaive", "NeuralLinearNTK", VARIANT)
UNBOUNDED = ("NeuralLinear", "NeuralUCB", "NeuralTS")
GRADIENT_BANDITS = ("NeuralUCB", "NeuralTS")
NO_START = (
    "Uniform", "NeuralUCB", "NeuralTS", "NeuralTS by batch", "NeuralTS, standardized", EXAMPLE,
)  # fmt: skip
NO_DRAWS = ("LiM2 by UCB", "NeuralUCB", EXAMPLE)


def selected() -> list[str]:
    """Return the first and the last variant of each family; all of them where LIM2_VARIANTS is set (`make attack`)."""
    if os.environ.get("LIM2_VARIANTS"):
        return list(VARIANTS)
    families: dict[str, list[str]] = {}
    for variant, (name, _) in VARIANTS.items():
        family = "buffered" if name in BUFFERED else "gradient" if name in GRADIENT_BANDITS else name
        families.setdefault(family, []).append(variant)
    ends = {variant for family in families.values() for variant in (family[0], family[-1])}
    return [variant for variant in VARIANTS if variant in ends]


every_agent = pytest.mark.parametrize("variant", selected())


def make(variant: str, seed: int | None = 0, **settings: Any) -> lim2.Agent:
    """Return an agent whose arms are 0, 1, 2."""
    name, defaults = VARIANTS[variant]
    return lim2.AGENTS[name](N_ARMS, N_FEATURES, seed=seed, **{**defaults, **settings})


def named(variant: str, names: Sequence[Hashable] = NAMES, seed: int | None = 0, **settings: Any) -> lim2.Agent:
    """Return an agent whose arms have names."""
    name, defaults = VARIANTS[variant]
    return lim2.AGENTS[name](arms=names, n_features=N_FEATURES, seed=seed, **{**defaults, **settings})


def believes(agent: lim2.Agent) -> bool:
    """Return whether an agent has beliefs."""
    return agent.name != "Uniform"


def own_module(variant: str) -> Any:
    """Return the representation that a file cannot describe, if the variant has one."""
    return VARIANTS[variant][1].get("representation")
