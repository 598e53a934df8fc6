"""What fails has changed nothing, wherever it fails: one new state, or none."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pytest
from helpers.faults import fails_at, fails_at_line
from helpers.variants import N_FEATURES, every_agent, make
from helpers.worlds import contexts_of, play
from numpy.typing import NDArray

import lim2
from lim2.algorithms import Algorithm
from lim2.exploration import UCB, Exploration, StudentT
from lim2.representation import MLP, SGD
from lim2.state import Array, Writes

CONTEXT = np.linspace(-1.0, 1.0, N_FEATURES)
TRACED = ("LiM2 with torch", "AdaptiveTS with torch")
CHANGES: dict[str, Callable[[lim2.Agent], None]] = {
    "add": lambda agent: agent.add_arm("new"),
    "add like": lambda agent: agent.add_arm("new", like=1),
    "remove": lambda agent: agent.remove_arm(1),
}


@pytest.fixture
def traceable(variant: str) -> None:
    if "torch" in variant and variant not in TRACED:
        pytest.skip("tracing PyTorch is slow")


def assert_whole_or_nothing(variant: str, rounds: int, change: Callable[[lim2.Agent], None], dense: int = 40) -> None:
    """Let a change fail on entry of every function; after many calls of every seventh, as they repeat themselves."""
    agent, expected = make(variant), make(variant)
    for learner in (agent, expected):
        play(learner, rounds)
    before, call = agent.to_bytes(), 1
    while fails_at(call, lambda: change(agent)):
        assert agent.to_bytes() == before, f"call {call} failed, and something had changed"
        call += 7 if call > dense or "torch" in variant else 1
    assert call > 3
    change(expected)
    assert agent.to_bytes() == expected.to_bytes()
    assert play(agent, 8, seed=1) == play(expected, 8, seed=1)
    assert agent.to_bytes() == expected.to_bytes()


@every_agent
@pytest.mark.usefixtures("traceable")
@pytest.mark.parametrize("rounds", [0, 15, 39], ids=["fresh", "just full", "full"])
def test_an_update_that_fails_anywhere_changes_nothing(variant: str, rounds: int) -> None:
    """Whatever function of the library it fails in; round 40 trains where training is in phases."""
    assert_whole_or_nothing(variant, rounds, lambda agent: agent.update(CONTEXT, 1, 0.5))


@every_agent
@pytest.mark.usefixtures("traceable")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_of_arms_that_fails_anywhere_changes_nothing(variant: str, change: Any) -> None:
    assert_whole_or_nothing(variant, 25, change)


@every_agent
@pytest.mark.usefixtures("traceable")
def test_a_batch_is_learned_whole_or_not_at_all(variant: str) -> None:
    """Also when the batch makes a growing memory full, and trains in its middle."""
    contexts, rewards = contexts_of(6, seed=3), np.arange(6.0)
    assert_whole_or_nothing(variant, 13, lambda agent: agent.update(contexts, [0, 1, 2, 0, 1, 2], rewards), dense=10)


@pytest.mark.parametrize(
    "variant",
    ["LinearTS", "AdaptiveTS, linear", "NeuralLinear", "NeuralLinearNTK", "NeuralTS"],
)
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_what_fails_changes_nothing_in_a_state_that_nobody_else_has(variant: str, many: bool) -> None:
    """Rows are then written where they lie: no copy is left to go back to."""
    start, contexts = make(variant), contexts_of(4, seed=3)
    play(start, 12)
    before, call, failed = start.to_bytes(), 1, True
    while failed:
        agent = start.copy()
        agent.update(contexts[0], 0, 0.0)  # a batch that fails must not go back to before this
        learned = start.copy()
        learned.update(contexts[0], 0, 0.0)
        if many:
            failed = fails_at(call, partial(agent.update, contexts, [0, 1, 2, 1], np.ones(4)))
        else:
            failed = fails_at(call, partial(agent.update, contexts[1], 1, 1.0))
        assert not failed or agent.to_bytes() == learned.to_bytes(), f"call {call} failed, and something had changed"
        call += 5 if call > 30 else 1
    assert call > 3
    assert start.to_bytes() == before


ONE_OR_NOTHING: dict[str, Callable[[lim2.Agent], None]] = {
    "update": lambda agent: agent.update(CONTEXT, 1, 0.5),
    "many updates": lambda agent: agent.update([CONTEXT, CONTEXT], [0, 1], [1.0, 2.0]),
    **CHANGES,
}


@pytest.mark.parametrize("variant", ["LinearTS", "LiM2", "NeuralLinear", "NeuralTS"])
@pytest.mark.parametrize("change", ONE_OR_NOTHING.values(), ids=ONE_OR_NOTHING.keys())
def test_an_interrupt_at_any_line_of_the_shell_is_before_or_after(variant: str, change: Any) -> None:
    start = make(variant)
    play(start, 25)
    before, done, line = start.to_bytes(), start.copy(), 1
    change(done)
    after, seen = done.to_bytes(), set()
    while True:
        agent = start.copy()
        failed = fails_at_line(line, partial(change, agent))
        content = agent.to_bytes()
        assert content in (before, after), f"line {line} was interrupted, and the change was made in part"
        seen.add(content)
        goes_on, never_failed = agent.copy(), (start if content == before else done).copy()
        assert play(goes_on, 3, seed=1) == play(never_failed, 3, seed=1)
        assert goes_on.to_bytes() == never_failed.to_bytes()
        if not failed:
            break
        line += 1
    assert seen == {before, after}
    assert line > 10


# Algorithms of one's own


class TallyState(NamedTuple):
    sums: Annotated[Array, "arm"]
    counts: Annotated[Array, "arm", "nonnegative"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally(Algorithm):
    """The mean reward of every arm, and what can go wrong with it."""

    fault: str = ""

    state_type: ClassVar[type[Any]] = TallyState
    draws: ClassVar[bool] = False

    @property
    def policy(self) -> Exploration:
        return UCB(1.0)

    def init(self, n_arms: int, rng: np.random.Generator) -> TallyState:
        return TallyState(np.zeros(n_arms), np.zeros(n_arms))

    def score(self, state: TallyState, contexts: NDArray[Any]) -> StudentT:
        mean = state.sums / (state.counts + 1.0)
        shape = (*contexts.shape[:-1], len(mean))
        return StudentT(np.broadcast_to(mean, shape), np.ones(shape), np.full(len(mean), np.inf))

    def learn(
        self, state: TallyState, context: NDArray[Any], arm: int, reward: float, rng: np.random.Generator
    ) -> tuple[Any, Any]:
        count: Any = [1.0, 2.0] if self.fault == "row" else state.counts[arm] + 1.0
        return Writes(state, [(state.sums, arm, state.sums[arm] + reward), (state.counts, arm, count)]), dict


def test_rows_are_written_where_nobody_else_sees_them() -> None:
    agent = lim2.Agent(Tally(2, 1))
    agent.update([1.0], 1, 3.0)
    kept = agent.state
    agent.update([1.0], 1, 3.0)
    assert kept.sums.tolist() == [0.0, 3.0]
    assert agent.state.sums.tolist() == [0.0, 6.0]
    assert agent.means([[1.0], [1.0]]).tolist() == [[0.0, 2.0]] * 2
    assert agent.pulls.tolist() == [0, 2]


def test_rows_that_do_not_fit_change_nothing() -> None:
    agent = lim2.Agent(Tally(2, 1, fault="row"))
    for _ in range(2):  # with a state that is shared, and with one that is not
        with pytest.raises(ValueError, match=r"sequence|shape"):
            agent.update([1.0], 1, 3.0)
        assert agent.means([1.0]).tolist() == [0.0, 0.0]
        assert (agent.rounds, agent.pulls.tolist()) == (0, [0, 0])
        _ = agent.state


def test_arms_that_cannot_change() -> None:
    agent = lim2.Agent(Tally(2, 1))
    with pytest.raises(NotImplementedError, match="Tally does not support adding or removing arms"):
        agent.add_arm("new")
    with pytest.raises(NotImplementedError, match="Tally does not support adding or removing arms"):
        agent.remove_arm(0)
    assert agent.arms == (0, 1)


# Networks


class Breaking(MLP):
    """A network whose training, or whose features, can be made to fail."""

    broken = ""

    def train(self, *args: Any) -> Any:
        if self.broken == "train":
            raise OSError("out of something")
        return super().train(*args)

    def features(self, *args: Any) -> Any:
        if self.broken == "features":
            raise OSError("out of something")
        return super().features(*args)


NEURAL: dict[str, dict[str, Any]] = {
    "LiM2": {},
    "LiM2Variant, no recount": {"recount": False},
    "LiM2, standardized": {"standardize": True},
    "AdaptiveTS": {"train_every": 1},
    "NeuralLinearMM": {},
    "NeuralLinearMM, standardized": {"standardize": True},
    "NeuralLinearNaive": {},
    "NeuralLinearNTK": {},
}


@pytest.mark.parametrize("variant", NEURAL)
@pytest.mark.parametrize("part", ["train", "features"])
@pytest.mark.parametrize("rounds", [5, 15, 40], ids=["growing", "just full", "full"])
def test_a_network_that_fails_leaves_the_agent_as_it_was(
    variant: str, part: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = variant.split(",")[0]
    given = {"buffer": 15, "seed": 0, **({} if name == "AdaptiveTS" else {"batch": 4}), **NEURAL[variant]}
    agents = [lim2.AGENTS[name](3, 2, representation=Breaking((4,)), **given) for _ in range(2)]
    for agent in agents:
        rng = np.random.default_rng(0)
        for t in range(rounds):
            agent.update(rng.normal(size=2), t % 3, float(t))
    agent, expected = agents
    with monkeypatch.context() as patch:
        patch.setattr(Breaking, "broken", part)
        for _ in range(2):
            with pytest.raises(OSError, match="out of something"):
                agent.update(np.ones(2), 1, 5.0)
    for learner in agents:
        assert learner.rounds == rounds
        learner.update(np.ones(2), 1, 5.0)
    assert agent.to_bytes() == expected.to_bytes()


def test_a_representation_that_cannot_change() -> None:
    class Rigid(MLP):
        def add_arm(self, *_: Any) -> Any:
            raise NotImplementedError("its outputs cannot change")

    agent = lim2.LiM2(2, 2, representation=Rigid((3,)), seed=0)
    agent.update([1.0, 2.0], 0, 1.0)
    before = agent.to_bytes()
    with pytest.raises(NotImplementedError, match="cannot change"):
        agent.add_arm("new")
    assert agent.arms == (0, 1)
    assert agent.to_bytes() == before


def test_diverging_training_is_an_error_not_a_silent_agent() -> None:
    agent = lim2.LiM2(3, 4, representation=MLP((20,), SGD(50.0, clip=None)), seed=0)
    rng = np.random.default_rng(1)
    with pytest.raises(FloatingPointError, match="learning_rate"):
        for t in range(500):
            agent.update(rng.normal(size=4), t % 3, 1.0)
    assert np.isfinite(agent.state.network.parameters).all()


def test_float32_features_are_taken() -> None:
    class Single(MLP):
        def features(self, *args: Any) -> Any:
            return super().features(*args).astype(np.float32)

        def train(self, *args: Any) -> Any:
            features, f, step = super().train(*args)
            return features.astype(np.float32), f, step

    for name in ("LiM2", "NeuralLinearMM", "NeuralLinearNTK", "NeuralLinear"):
        agent = lim2.AGENTS[name](2, 3, representation=Single((5,)), seed=0)
        for t in range(10):
            agent.update(np.ones(3) * t, t % 2, 1.0)
        assert agent.rounds == 10
        assert np.isfinite(agent.means(np.ones(3))).all()
