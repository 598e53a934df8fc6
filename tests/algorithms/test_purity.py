"""The guard of these tests: an algorithm that writes to a state that it is given is found."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pytest
from helpers.purity import ImpureError, guard
from numpy.typing import NDArray
from scipy.linalg import blas

import lim2
from lim2 import memory
from lim2.algorithms import Algorithm
from lim2.exploration import Exploration, Random, StudentT
from lim2.memory import Memory
from lim2.state import Array


class State(NamedTuple):
    sums: Annotated[Array, "arm"]
    squares: Annotated[Array, "arm arm"]
    memory: Memory


@dataclass(frozen=True, kw_only=True, eq=False)
class Impure(Algorithm):
    """Counts, and writes where it must not."""

    fault: str = ""

    state_type: ClassVar[type[Any]] = State

    @property
    def policy(self) -> Exploration:
        return Random()

    def init(self, n_arms: int, rng: np.random.Generator) -> State:
        return State(np.zeros(n_arms), np.asfortranarray(np.eye(n_arms)), memory.empty(3, n_arms, self.shape))

    def score(self, state: State, contexts: NDArray[Any]) -> StudentT:
        if self.fault == "score":
            state.sums[0] = 1.0
        nothing = np.zeros((*contexts.shape[:-1], len(state.sums)))
        return StudentT(nothing, nothing, np.full(len(state.sums), np.inf))

    def learn(
        self, state: State, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[State, Any]:
        E, squares, sums = state.memory, state.squares, state.sums.copy()
        if self.fault == "array":
            state.sums[arm] += reward
        elif self.fault == "view":
            np.add(state.sums[arm:], reward, out=state.sums[arm:])
        elif self.fault == "BLAS":  # does not ask whether an array may be written to
            blas.dger(1.0, np.ones(len(sums)), np.ones(len(sums)), a=squares, overwrite_a=1)
        elif self.fault == "memory" and E.held:
            E.rewards[E.rows()[0]] = -1.0
        sums[arm] += reward
        return State(sums, squares, memory.store(E, context, arm, reward)[0]), dict

    def add_arm(self, state: State, like: int | None, rng: np.random.Generator) -> State:
        if self.fault == "add_arm":
            state.sums[0] = 7.0
        return State(np.append(state.sums, 0.0), np.eye(len(state.sums) + 1), memory.add_arm(state.memory, None))

    def remove_arm(self, state: State, arm: int) -> State:
        if self.fault == "remove_arm":
            state.memory.counts[0] = 0
        kept = np.delete(state.sums, arm)
        return State(kept, np.eye(len(kept)), memory.remove_arm(state.memory, arm, None))


@pytest.fixture(autouse=True)
def guarded(monkeypatch: pytest.MonkeyPatch, pure_algorithms: None) -> None:
    guard(monkeypatch, only=Impure)


def rounds_of(fault: str) -> None:
    agent = lim2.Agent(Impure(3, 1, fault=fault, seed=0))
    for t in range(8):
        agent.act([1.0])
        agent.update([1.0], t % 3, 1.0)
    agent.add_arm("new", like=0)
    agent.remove_arm(1)
    agent.update([1.0], "new", 1.0)


@pytest.mark.parametrize("fault", ["score", "array", "view", "add_arm", "remove_arm", "memory", "BLAS"])
def test_an_impure_algorithm_is_found(fault: str) -> None:
    """By an array that is read-only, or where that does not help, by values that have changed."""
    with pytest.raises((ImpureError, ValueError), match=r"read-only|has changed the state"):
        rounds_of(fault)


@pytest.mark.parametrize("fault", ["memory", "BLAS"])
def test_values_are_compared_where_arrays_cannot_be_frozen(fault: str) -> None:
    with pytest.raises(ImpureError, match=r"Impure\.learn has changed the state that it was given"):
        rounds_of(fault)


def test_a_pure_algorithm_passes() -> None:
    rounds_of("")


def test_arrays_are_writeable_again_afterwards() -> None:
    """The shell writes rows in place: only a function that has a state must not."""
    agent = lim2.Agent(Impure(3, 1, seed=0))
    agent.update([1.0], 0, 1.0)
    assert agent.state.sums.flags.writeable
