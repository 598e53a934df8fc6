"""A small world for TransportTS, and its state by hand."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import lim2
from lim2.algorithms import TransportTS
from lim2.algorithms.transport_ts import State
from lim2.exploration import transported
from lim2.exploration.roots import RootPosterior
from lim2.state import Writes, written

N_ARMS, N_FEATURES = 3, 4
Float = NDArray[np.float64]


def make(**settings: Any) -> lim2.Agent:
    """Return a small agent."""
    return lim2.TransportTS(N_ARMS, N_FEATURES, **{"hidden": (6,), "batch": 8, "buffer": 30, "seed": 0, **settings})


def play(agent: lim2.Agent, rounds: int, scale: float = 1.0, shift: float = 0.0, size: float = 1.0) -> list[int]:
    """Play a nonlinear world in some units; return the arms."""
    rng = np.random.default_rng(0)
    arms = []
    for context in rng.normal(size=(rounds, N_FEATURES)):
        arm = agent.act(size * context)
        reward = np.sin(context[arm] * context[3]) + 0.1 * arm + 0.1 * rng.normal()
        agent.update(size * context, arm, float(scale * reward + shift))
        arms.append(arm)
    return arms


def algorithm_of(agent: lim2.Agent) -> TransportTS:
    """Return the algorithm of an agent."""
    return cast(TransportTS, agent.algorithm)


def learned(agent: lim2.Agent, state: State, context: Any, arm: int, reward: float, **settings: Any) -> State:
    """Return the state after one more reward, with other settings than the agent's."""
    how = replace(algorithm_of(agent), **settings)
    new, _ = how.learn(state, np.asarray(context, dtype=float), arm, reward, np.random.default_rng(0))
    return cast(State, written(new) if isinstance(new, Writes) else new)


def features_by(agent: lim2.Agent, network: Any, contexts: Float) -> Float:
    """Return the features that a network gives contexts, measured from 0."""
    how, scales = algorithm_of(agent), agent.state.scales
    inputs = contexts / scales.size
    hidden = how.net.features(network, inputs if how.representation is None else contexts)
    skipped = inputs if how.skips else inputs[:, :0]
    return np.column_stack((hidden, skipped, np.ones(len(contexts))))


def features_of(agent: lim2.Agent, contexts: Float) -> Float:
    """Return the features that the beliefs are about."""
    origin: Float = agent.state.origin
    return features_by(agent, agent.state.reference, contexts) - origin


def held(state: State) -> tuple[Float, Float, list[int]]:
    """Return the contexts and rewards in the buffer, sorted by arm, and their bounds."""
    contexts, arms, rewards, *_ = state.memory.canonical()
    order = arms.argsort(kind="stable")
    return contexts[order], rewards[order], [0, *np.cumsum(state.memory.counts).tolist()]


def refitted(agent: lim2.Agent) -> RootPosterior:
    """Return what the prior and the buffer make."""
    contexts, rewards, bounds = held(agent.state)
    return transported.refit(agent.state.prior, features_of(agent, contexts), rewards, bounds)
