"""`python -m benchmarks.proof`: how often a proof is wrong, and how soon it is there.

Bandits of the default agent are simulated with their real propensities: four arms, two numbers as context that scale
the rate of all arms, and rewards that arrive 250 decisions at a time. Under A/A all arms are equal, so each verdict is
false; under A/B the first arm, which is the rule, has 5% clicks and the others have 7%. With a control, the rule
decides for a share of the traffic by chance. Next to the proof is what a fixed-sample 95% interval of the same gain
would have said at the same looks. Results are added to benchmarks/results/proof.json; what is there is not repeated.

    python -m benchmarks.proof aa --replications 500
    python -m benchmarks.proof log --replications 20    # the same through logs and controls of lim2
    python -m benchmarks.proof ab --replications 100
    python -m benchmarks.proof --table
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import lim2
from lim2.experiments.report.markdown import table
from lim2.exploration.epsilon import LOGGED
from lim2.log.proof import Evidence, Question, after_rewards, weights_of
from lim2.log.rules import Rule

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results" / "proof.json"
ARMS, BLOCK = 4, 250
DECISIONS = {"aa": 20_000, "log": 20_000, "ab": 50_000}
LOOK = 200  # decisions between looks: 100 looks at 20,000 decisions
RULE = Rule("always", "0")


class World(NamedTuple):
    """Rewards of the rule's arm and of the others, and their range."""

    rate: float
    other: float
    amount: float = 0.0  # median of a log-normal amount; 0: clicks
    reward_range: tuple[float, float] | None = None

    def rewards(self, rng: np.random.Generator, contexts: Array, arms: NDArray[np.intp]) -> Array:
        """Draw the rewards of decisions."""
        rates = np.where(arms == 0, self.rate, self.other) * (1 + 0.3 * np.tanh(contexts[:, 0]))
        rewards = (rng.random(len(arms)) < rates).astype(np.float64)
        return rewards * self.amount * np.exp(rng.normal(size=len(arms))) if self.amount else rewards


AA = {
    "clicks of 2%": World(0.02, 0.02),
    "clicks of 5%": World(0.05, 0.05),
    "clicks of 30%": World(0.3, 0.3),
    "revenue, capped at 100": World(0.05, 0.05, 30.0, (0.0, 100.0)),
}
AB = {"5% against 7%": World(0.05, 0.07)}


def blocks(world: World, share: float, seed: int, decisions: int) -> Iterator[tuple[Array, Array]]:
    """Yield the rewards and the weights of a simulated bandit's decisions."""
    rng = np.random.default_rng([seed, 1])
    agent = lim2.AdaptiveTS(arms=range(ARMS), n_features=2, epsilon=LOGGED, seed=seed)
    rule = np.eye(ARMS)[0]
    for _ in range(0, decisions, BLOCK):
        contexts = rng.normal(size=(BLOCK, 2))
        propensities = share * rule + (1 - share) * agent.propensities(contexts)
        arms = (rng.random((BLOCK, 1)) > propensities.cumsum(axis=1)).sum(axis=1).clip(max=ARMS - 1)
        rewards = world.rewards(rng, contexts, arms)
        agent.update(contexts, arms.tolist(), rewards, batch=BLOCK)
        yield rewards, weights_of(np.tile(rule, (BLOCK, 1)), propensities, arms)


class Course(NamedTuple):
    """What one bandit's proof said at each look: 1 for better, -1 for worse, 0 for not yet."""

    proof: list[int]
    fixed: list[int]
    gain: float
    half_width: float

    def first(self) -> float:
        """Return the number of decisions at the first look with a verdict."""
        return next((LOOK * (at + 1) for at, sign in enumerate(self.proof) if sign), math.inf)


def course(world: World, share: float, seed: int, decisions: int) -> Course:
    """Simulate one bandit, and look at its proof every `LOOK` decisions."""
    question = Question(RULE, world.reward_range, 0.95)
    pairs = list(blocks(world, share, seed, decisions))
    rewards, weights = np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])
    evidence, signs, fixed = Evidence(), [], []
    for start in range(0, decisions, LOOK):
        part = slice(start, start + LOOK)
        evidence = after_rewards(evidence, question, rewards[part], weights[part])
        n = max(evidence.counted, 1)
        mean = evidence.raw_total / n
        error = math.sqrt(max(evidence.raw_squares / n - mean**2, 0.0) / n)
        signs.append(evidence.sign)
        fixed.append(int(np.sign(mean)) if abs(mean) > 1.96 * error else 0)
    last = evidence.curve[-1]
    return Course(signs, fixed, evidence.total / n, (last[3] - last[2]) / 2)


def logged(world: World, share: float, seed: int, decisions: int) -> Course:
    """Let one bandit decide through a log, under a control of lim2, and look at its proof every `LOOK` decisions."""
    rng, signs = np.random.default_rng([seed, 2]), []
    arms = [str(arm) for arm in range(ARMS)]
    with TemporaryDirectory() as folder, lim2.DecisionLog(f"{folder}/log.db", synchronous="normal") as log:
        control = lim2.Control(RULE.name, share) if share else None
        bandit = lim2.Bandit(arms, log=log, control=control, seed=seed)
        for _ in range(0, decisions, LOOK):
            contexts = rng.normal(size=(LOOK, 2))
            rows = [{"a": float(a), "b": float(b)} for a, b in contexts]
            made = log.decide_many(bandit, rows)
            rewards = world.rewards(rng, contexts, np.array([int(str(one.arm)) for one in made]))
            log.reward_many([(one.id, float(reward)) for one, reward in zip(made, rewards, strict=True)])
            log.apply(bandit, batch=LOOK)
            proof = log.proof(RULE, reward_range=world.reward_range)
            signs.append({"proved better": 1, "proved worse": -1}.get(proof.verdict, 0))
    return Course(signs, [0], proof.gain, (proof.interval[1] - proof.interval[0]) / 2)


def ever(signs: list[int], every: int) -> bool:
    """Return whether one of every so many looks showed a verdict."""
    return any(signs[every - 1 :: every])


def run(kind: str, name: str, world: World, share: float, replications: int) -> dict[str, Any]:
    """Simulate bandits, and return what is kept of them."""
    simulate = logged if kind == "log" else course
    courses = [simulate(world, share, seed, DECISIONS[kind]) for seed in range(replications)]
    found: dict[str, Any] = {"kind": kind, "world": name, "control": share, "bandits": replications}
    for looks, every in ((10, 10), (100, 1)) if kind != "ab" else ():
        found[f"proof, {looks} looks"] = float(np.mean([ever(one.proof, every) for one in courses]))
        if kind == "aa":
            found[f"fixed, {looks} looks"] = float(np.mean([ever(one.fixed, every) for one in courses]))
    if kind == "ab":
        found["median decisions"] = float(np.median([one.first() for one in courses]))
        found["proved"] = float(np.mean([one.first() < math.inf for one in courses]))
        found["wrong"] = float(np.mean([-1 in one.proof for one in courses]))
    found["half width"] = float(np.median([one.half_width for one in courses]))
    return found


def results() -> list[dict[str, Any]]:
    """Return what is kept."""
    return json.loads(RESULTS.read_text()) if RESULTS.is_file() else []


def show() -> str:
    """Return the kept results as Markdown tables."""
    aa = [one for one in results() if one["kind"] in ("aa", "log")]
    ab = [one for one in results() if one["kind"] == "ab"]
    first = table(
        [
            "rewards",
            "through",
            "control",
            "bandits",
            "proof, 10 looks",
            "100 looks",
            "fixed interval, 10 looks",
            "100 looks",
        ],
        [
            [one["world"], "a log" if one["kind"] == "log" else "", f"{one['control']:.0%}", str(one["bandits"])]
            + [_share(one.get(f"{what}, {looks} looks")) for what in ("proof", "fixed") for looks in (10, 100)]
            for one in aa
        ],
    )
    second = table(
        ["clicks", "control", "bandits", "median decisions to proof", "proved in 50,000", "wrong"],
        [
            [
                one["world"], f"{one['control']:.0%}", str(one["bandits"]), _decisions(one["median decisions"]),
                f"{one['proved']:.0%}", f"{one['wrong']:.1%}",
            ]
            for one in ab
        ],
    )  # fmt: skip
    return "\n".join([*first, "", *second])


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _decisions(number: float) -> str:
    return f"{number:,.0f}" if number < math.inf else "more than 50,000"


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=("aa", "ab", "log"))
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    for name, world in (AB if given.kind == "ab" else AA if given.kind else {}).items():
        for share in (0.1, 0.0):
            key = {"kind": given.kind, "world": name, "control": share, "bandits": given.replications}
            if any(key.items() <= one.items() for one in results()):
                continue
            found = run(given.kind, name, world, share, given.replications)
            kept = [one for one in results() if (one["kind"], one["world"], one["control"]) != tuple(key.values())[:3]]
            RESULTS.write_text(json.dumps([*kept, found], indent=1) + "\n")
            print(found, flush=True)
    if given.table:
        print(show())


if __name__ == "__main__":
    main()
