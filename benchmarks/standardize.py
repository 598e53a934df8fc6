"""`python -m benchmarks.standardize`: raw columns with standardize=True against columns scaled beforehand.

Offline scaling knows the moments of all rows that will be played; the agent only those of rows it has learned from.
Same shuffles, same seeds. Finished runs are kept in benchmarks/results/standardize.json, and not played again; the
table goes into docs/concepts/learning.md.
"""

import argparse

from benchmarks.paired import Results, Run, difference, mean_and_std, write_table

PROBLEMS = ("statlog", "adult")
AGENTS = ("LiM2", "NeuralLinearMM", "NeuralLinearNTK")
OFFLINE, RAW = {"standardize": "sample"}, {"standardize": None}


def ways(problem: str, agent: str, n: int, rounds: int) -> tuple[list[Run], list[Run]]:
    """Return the runs of an agent that is given scaled columns, and of one that scales raw ones itself."""
    offline = [Run(problem, OFFLINE, agent, {}, rounds, seed) for seed in range(n)]
    return offline, [Run(problem, RAW, agent, {"standardize": True}, rounds, seed) for seed in range(n)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", default=",".join(AGENTS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="only write the table of what has been played")
    arguments = parser.parse_args()
    results = Results("standardize")
    plan = {
        (problem, agent): ways(problem, agent, arguments.runs, arguments.rounds)
        for problem in PROBLEMS
        for agent in arguments.agents.split(",")
    }
    if not arguments.table:
        results.play(
            [run for pair in plan.values() for runs in zip(*pair, strict=True) for run in runs], arguments.jobs
        )
    lines = [
        "| problem | agent | runs | scaled beforehand | raw, `standardize=True` | difference |",
        "|---|---|---|---|---|---|",
    ]
    for (problem, agent), pair in plan.items():
        offline, scaled = results.paired(pair)
        if len(offline) > 1:
            rewards = mean_and_std(offline), mean_and_std(scaled), difference(scaled, offline)
            lines.append(f"| {' | '.join((problem, agent, str(len(offline)), *rewards))} |")
    write_table("standardize", lines)


if __name__ == "__main__":
    main()
