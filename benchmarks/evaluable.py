"""`python -m benchmarks.evaluable`: what a share of uniform decisions costs, and how well its logs estimate policies.

Each run simulates a product with known expected rewards, plays one logger in it (AdaptiveTS with an epsilon, or Vowpal
Wabbit's SquareCB), and evaluates two policies from the log: the uniform one, and a candidate. The candidate is the
greedy policy of a LinearTS agent that has learned 2,000 uniform decisions of the same world. Runs are appended to
benchmarks/results/evaluable.jsonl. Runs that are in the file are not repeated, so an interrupted command can go on.

    python -m benchmarks.evaluable --seeds 0-19
    python -m benchmarks.evaluable --table
"""

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

import lim2
from lim2.evaluation import OverlapWarning, evaluate
from lim2.experiments.report.markdown import table
from lim2.log import Table

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results" / "evaluable.jsonl"
EPSILONS = (0.0, 0.01, 0.02, 0.03, 0.05)
SQUARECB = "SquareCB"
TRAINING = 2_000  # uniform decisions that the candidate has learned from


class World(NamedTuple):
    """Contexts, and the expected and drawn rewards of all arms."""

    contexts: Array
    means: Array
    rewards: Array


def _world(rng: np.random.Generator, contexts: Array, scores: Array) -> World:
    means = expit(scores)
    return World(contexts, means, (rng.random(means.shape) < means).astype(float))


def _effects(rng: np.random.Generator, columns: int, arms: int, arm: float, taste: float) -> tuple[Array, Array]:
    """Return the effects of arms, evenly spaced, and of the columns of a context on each."""
    weights = rng.normal(size=(columns, arms))
    return rng.permutation(np.linspace(-arm, arm, arms)), taste * weights / np.linalg.norm(weights, axis=0)


def clicks(rng: np.random.Generator, training: int) -> World:
    """Four arms of 3% clicks; they differ, and visitors have tastes."""
    contexts = rng.normal(size=(10_000 + training, 10))
    contexts[:, 5:] = contexts[:, 5:] > 0.5
    arms, tastes = _effects(rng, 10, 4, 0.4, 0.6)
    return _world(rng, contexts, logit(0.03) + arms + contexts @ tastes)


def likes(rng: np.random.Generator, training: int) -> World:
    """Five arms of 35% likes; they differ, and visitors have tastes."""
    contexts = rng.normal(size=(8_000 + training, 5))
    arms, tastes = _effects(rng, 5, 5, 0.6, 0.8)
    return _world(rng, contexts, logit(0.35) + arms + contexts @ tastes)


def late_better(rng: np.random.Generator, training: int) -> World:
    """Five arms of 35% likes, of which the worst becomes the best half-way."""
    rounds = 8_000
    contexts = rng.normal(size=(rounds + training, 5))
    arms, tastes = _effects(rng, 5, 5, 0.6, 0.6)
    scores = logit(0.35) + arms + contexts @ tastes
    scores[:, rng.integers(5)] = np.where(np.arange(rounds + training) < rounds // 2, -2.0, 1.5)
    return _world(rng, contexts, scores)


WORLDS: dict[str, Callable[[np.random.Generator, int], World]] = {
    one.__name__: one for one in (clicks, likes, late_better)
}


class Logger(Protocol):
    """What decides, and says with which probabilities."""

    def decide(self, context: Array) -> tuple[int, Array]:
        """Return an arm, and the propensities of all arms."""

    def update(self, context: Array, arm: int, reward: float) -> None:
        """Learn the reward of the latest decision."""


class Agent:
    """AdaptiveTS with an epsilon."""

    def __init__(self, arms: int, columns: int, seed: int, epsilon: float, settings: dict[str, Any]) -> None:
        self._agent = lim2.AdaptiveTS(arms, columns, epsilon=epsilon, seed=seed, **settings)
        self.update = self._agent.update

    def decide(self, context: Array) -> tuple[int, Array]:  # noqa: D102
        decision = self._agent.decide(context)
        return int(decision.arm), decision.propensities  # type: ignore[call-overload]


class SquareCB:
    """Vowpal Wabbit's SquareCB, with a linear model per arm."""

    def __init__(self, arms: int, seed: int) -> None:
        from vowpalwabbit import Workspace

        self._vw = Workspace(f"--cb_explore_adf --squarecb --cb_type mtr -q sa --quiet --random_seed {seed + 1}")
        self._rng, self._arms = np.random.default_rng(seed), [f"|a a{arm}" for arm in range(arms)]
        self._chance = 1.0  # of the latest decision

    def decide(self, context: Array) -> tuple[int, Array]:  # noqa: D102
        chances = np.array(self._vw.predict(self._lines(context)), dtype=float)
        chances /= chances.sum()
        arm = int(self._rng.choice(len(chances), p=chances))
        self._chance = float(chances[arm])
        return arm, chances

    def update(self, context: Array, arm: int, reward: float) -> None:  # noqa: D102
        lines = self._lines(context)
        lines[arm + 1] = f"0:{-reward}:{self._chance:.6f} {lines[arm + 1]}"
        self._vw.learn(lines)

    def _lines(self, context: Array) -> list[str]:
        features = " ".join(f"{place}:{value:.5g}" for place, value in enumerate(context.tolist()))
        return [f"shared |s {features}", *self._arms]


def candidate(world: World, seed: int) -> lim2.Agent:
    """Return an agent that has learned uniform decisions."""
    rng = np.random.default_rng([1, seed])
    arms = rng.integers(world.means.shape[1], size=len(world.means))
    agent = lim2.LinearTS(world.means.shape[1], world.contexts.shape[1], seed=seed)
    agent.update(world.contexts, arms, world.rewards[np.arange(len(arms)), arms], batch=len(arms))
    return agent


def run(name: str, logger: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Play one logger in a world, and evaluate the two policies from its log."""
    world = WORLDS[name](np.random.default_rng([list(WORLDS).index(name), seed]), TRAINING)
    shown, held = (World(*(part[rows] for part in world)) for rows in (slice(-TRAINING), slice(-TRAINING, None)))
    rounds, arms = shown.means.shape
    if logger == SQUARECB:
        player: Logger = SquareCB(arms, seed)
    else:
        player = Agent(arms, shown.contexts.shape[1], seed, float(logger), settings)
    played, chances = np.empty(rounds, dtype=int), np.empty((rounds, arms))
    for t, context in enumerate(shown.contexts):
        played[t], chances[t] = player.decide(context)
        player.update(context, int(played[t]), float(shown.rewards[t, played[t]]))
    every = np.arange(rounds)
    earned, best = shown.means[every, played], shown.means.max(axis=1)
    log = Table.of(
        shown.contexts, played.tolist(), shown.rewards[every, played], chances[every, played],
        arms=range(arms), eligible=np.ones((rounds, arms), dtype=bool), propensities=chances,
    )  # fmt: skip
    uniform = np.full((rounds, arms), 1.0 / arms)
    greedy = np.eye(arms)[candidate(held, seed).means(shown.contexts).argmax(axis=1)]
    return {
        "world": name, "logger": logger, "settings": settings, "seed": seed, "reward": float(earned.mean()),
        "regret": float((best - earned).sum() / (best[:, None] - shown.means).mean(axis=1).sum()),
        "certain": float((chances.max(axis=1) > 0.99).mean()),
        "uniform": errors(log, uniform, shown.means), "candidate": errors(log, greedy, shown.means),
    }  # fmt: skip


def errors(log: Table, policy: Array, means: Array) -> dict[str, float]:
    """Return by how much the estimates miss a policy's value, and whether the interval of DR contains it."""
    true = float((policy * means).sum(axis=1).mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        found = evaluate(log, policy)
    return {
        "ips": abs(found.ips.value - true) / true,
        "dr": abs(found.dr.value - true) / true,
        "covered": float(found.dr.low <= true <= found.dr.high),
    }


def kept(path: Path = RESULTS) -> list[dict[str, Any]]:
    """Return the rows of the runs that were played."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rounded(value: Any) -> Any:
    """Return a row with numbers of five digits."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def report(rows: list[dict[str, Any]]) -> str:
    """Return a table with a line per world and logger."""
    lines = []
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["world"], label(row["logger"], row["settings"]), row["logger"]), []).append(row)
    for (world, name, logger), own in groups.items():
        usual = label("0.0", {} if logger == SQUARECB else own[0]["settings"])
        without = {row["seed"]: row["reward"] for row in groups.get((world, usual, "0.0"), [])}
        lost = [1.0 - row["reward"] / without[row["seed"]] for row in own if row["seed"] in without]
        missed = [f"{mean(row[kind][by] for row in own):.0%}" for kind in KINDS for by in MEASURES]
        compared = "" if logger == "0.0" or len(lost) < 2 else f"{mean(lost):.1%} ± {standard_error(lost):.1%}"
        certain, regret = (f"{mean(row[what] for row in own):.0%}" for what in ("certain", "regret"))
        lines.append([world, name, str(len(own)), compared, regret, certain, *missed])
    return "\n".join(table(HEADER, lines, left=2))


def label(logger: str, settings: dict[str, Any]) -> str:
    """Return the name of a logger in the table."""
    more = "".join(f", {name}={value:g}" for name, value in settings.items())
    return logger if logger == SQUARECB else f"epsilon {float(logger):g}{more}"


KINDS = ("uniform", "candidate")
MEASURES = {"ips": "IPS misses by", "dr": "DR misses by", "covered": "interval holds"}
HEADER = [
    "world", "log of", "seeds", "reward lost", "regret", "p > .99",
    *(f"{kind}: {what}" for kind in KINDS for what in MEASURES.values()),
]  # fmt: skip


def mean(values: Iterable[float]) -> float:
    """Return the mean."""
    return float(np.mean(list(values)))


def standard_error(values: list[float]) -> float:
    """Return the standard error of a mean."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, float(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--loggers", default=",".join([*map(str, EPSILONS), SQUARECB]))
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--set", action="append", type=_setting, default=[], help="a number: change_threshold=inf")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the table of the results, run nothing")
    args = parser.parse_args()
    rows = kept(args.out)
    if not args.table:
        first, _, last = args.seeds.partition("-")
        loggers = [one for one in args.loggers.split(",") if one != SQUARECB or find_spec("vowpalwabbit")]
        done = {(row["world"], row["logger"], row["seed"], str(row["settings"])) for row in rows}
        for seed, name, logger in product(range(int(first), int(last or first) + 1), args.worlds.split(","), loggers):
            settings = {} if logger == SQUARECB else dict(args.set)
            if (name, logger, seed, str(settings)) not in done:
                rows.append(run(name, logger, seed, settings))
                with args.out.open("a") as file:
                    file.write(json.dumps(rounded(rows[-1])) + "\n")
    print(report(rows))


if __name__ == "__main__":
    main()
