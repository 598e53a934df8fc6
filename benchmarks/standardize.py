"""`python -m benchmarks.standardize`: raw columns with standardize=True against columns scaled beforehand.

Offline scaling knows the moments of all rows that will be played; the agent only those of rows it has learned from.
Same shuffles, same seeds. Finished runs are kept in benchmarks/results/standardize.json, and not played again; the
table goes into docs/learning.md.
"""

import argparse

from benchmarks.paired import Results, Run, difference, mean_and_std, write_table

PROBLEMS = ("statlog", "adult")
AGENTS = ("LinearTS", "LiM2", "NeuralLinear-MM", "NeuralLinear-NTK")
OFFLINE, RAW = {"standardize": "sample"}, {"standardize": None}


def runs(problem: str, agent: str, way: str, n: int, rounds: int) -> list[Run]:
    """Return the runs of an agent that is given scaled columns, raw ones, or scales raw ones itself."""
    columns = OFFLINE if way == "offline" else RAW
    settings = {"standardize": True} if way == "agent" else {}
    return [Run(problem, columns, agent, settings, rounds, seed) for seed in range(n)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", default=",".join(AGENTS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    results = Results("standardize")
    lines = [
        "| problem | agent | scaled beforehand | raw, `standardize=True` | difference | raw, without it |",
        "|---|---|---|---|---|---|",
    ]
    for problem in PROBLEMS:
        for agent in arguments.agents.split(","):
            ways = [
                runs(problem, agent, way, arguments.runs, arguments.rounds) for way in ("offline", "agent", "nothing")
            ]
            results.play([run for way in ways for run in way], arguments.jobs)
            offline, scaled, raw = map(results.of, ways)
            cells = problem, agent, mean_and_std(offline), mean_and_std(scaled), difference(scaled, offline)
            lines.append(f"| {' | '.join((*cells, mean_and_std(raw)))} |")
    write_table("standardize", lines)


if __name__ == "__main__":
    main()
