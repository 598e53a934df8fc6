"""`python -m benchmarks.fresh`: play what the table of `benchmarks.past_the_paper` still misses, on the fresh shuffles.

AdaptiveTS, its rivals and their settings are those of `benchmarks/suites/past-the-paper.toml`; `ROSTER` says who plays
where. What `docs/results/past-the-paper/runs.csv` or the folder has is not played again, so it can be stopped at any
moment. `python -m benchmarks.past_the_paper results/fresh` adds the runs to the table.
"""

import argparse
from pathlib import Path

from benchmarks.past_the_paper import INTERCEPT, OUT, PEERS, PROBLEMS, ROUNDS, TUNED, read_runs
from lim2.experiments import bench
from lim2.experiments.suite import read_suite

SUITE = Path(__file__).parent / "suites" / "past-the-paper.toml"
FRESH = range(2000, 2010)
TABULAR = tuple(problem for problem in PROBLEMS if problem not in ("wheel", "drifting", "risky"))
# By agent, the problems that it plays. The last four are slow: they play where they were within 5% of the span of the
# paper's best method on seeds 0 to 9 (docs/results/tables/normalised.csv).
ROSTER: dict[str, tuple[str, ...]] = {
    "AdaptiveTS": tuple(PROBLEMS),
    INTERCEPT: TABULAR,
    "LinearTS": tuple(PROBLEMS),
    "LiM2": tuple(PROBLEMS),
    **{peer: tuple(PROBLEMS) for peer in PEERS if peer != TUNED},
    "NeuralLinearNTK": ("mushroom", "scania", "statlog"),
    "NeuralLinear": ("statlog", "scania", "mushroom"),
    "NeuralTS": ("statlog", "jester"),
    "NeuralUCB": ("statlog", "smartphones-66", "scania", "epileptic", "census"),
}


def missing(kept: set[tuple[str, str, int]], shuffles: range = FRESH) -> dict[tuple[str, range], list[str]]:
    """Return, by problem and stretch of shuffles, the agents whose runs are asked for and not there.

    Examples
    --------
    >>> there = {(agent, problem, seed) for agent in ROSTER for problem in PROBLEMS for seed in FRESH}
    >>> missing(there - {("LiM2", "adult", 2003), ("LinearTS", "adult", 2008), ("LinearTS", "adult", 2009)})
    {('adult', range(2008, 2010)): ['LinearTS'], ('adult', range(2003, 2004)): ['LiM2']}
    """
    found: dict[tuple[str, range], list[str]] = {}
    for problem in PROBLEMS:
        for agent in (agent for agent, problems in ROSTER.items() if problem in problems):
            seeds = [seed for seed in shuffles if (agent, problem, seed) not in kept]
            for first in (seed for seed in seeds if seed - 1 not in seeds):
                last = next(seed for seed in seeds if seed >= first and seed + 1 not in seeds)
                found.setdefault((problem, range(first, last + 1)), []).append(agent)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/fresh"))
    parser.add_argument("--agents", default=",".join(ROSTER), help="only these")
    parser.add_argument("--problems", default=",".join(PROBLEMS), help="only these")
    parser.add_argument("--first", type=int, default=FRESH[0], help="first of the ten shuffles; 1000: the earlier ones")
    arguments = parser.parse_args()
    shuffles = range(arguments.first, arguments.first + len(FRESH))
    variants = read_suite(SUITE).variants
    kept = read_runs([OUT]).select("agent", "problem", "seed").iter_rows()
    for (problem, seeds), agents in missing({(str(a), str(p), int(s)) for a, p, s in kept}, shuffles).items():
        chosen = [agent for agent in agents if agent in arguments.agents.split(",")]
        if not chosen or problem not in arguments.problems.split(","):
            continue
        print(f"{problem}, shuffles {seeds[0]} to {seeds[-1]}: {', '.join(chosen)}", flush=True)
        players = {agent: dict(variants.get(agent, {"of": agent})) for agent in chosen}
        bench(
            [PROBLEMS[problem]],
            {agent: (settings.pop("of"), settings) for agent, settings in players.items()},
            rounds=ROUNDS, runs=len(seeds), seed=seeds[0], out=arguments.out, jobs=1, quiet=True, report=False,
        )  # fmt: skip


if __name__ == "__main__":
    main()
