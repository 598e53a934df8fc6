"""`python -m benchmarks.forget`: agents that forget, in worlds that change and in one that does not.

Same draws, same seeds; rewards are expected ones. Finished runs are kept in benchmarks/results/forget.json, and not
played again; the table goes into docs/learning.md.
"""

import argparse
from typing import Any

from benchmarks.paired import Results, Run, difference, mean_and_std, write_table

WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "drifting: linear, abrupt": ("drifting", {"world": "linear", "change": "abrupt"}),
    "drifting: nonlinear, abrupt": ("drifting", {"world": "nonlinear", "change": "abrupt"}),
    "nonlinear, stationary": ("nonlinear", {}),
}
SHARES = (0.0, 0.003, 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", default="LiM2")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="only write the table of what has been played")
    arguments = parser.parse_args()
    results = Results("forget")
    plan = {
        (agent, world): [
            [Run(*WORLDS[world], agent, {"forget": share}, arguments.rounds, seed) for seed in range(arguments.runs)]
            for share in SHARES
        ]
        for agent in arguments.agents.split(",")
        for world in WORLDS
    }
    if not arguments.table:
        results.play([run for way in plan.values() for runs in zip(*way, strict=True) for run in runs], arguments.jobs)
    lines = [
        f"| problem | agent | runs | forget nothing | {' | '.join(f'`forget={share}`' for share in SHARES[1:])} |",
        f"|---|---|---|{'---|' * len(SHARES)}",
    ]
    for (agent, world), ways in plan.items():
        nothing, *forgetting = results.paired(ways)
        if len(nothing) > 1:
            gains = (difference(rewards, nothing) for rewards in forgetting)
            lines.append(f"| {' | '.join((world, agent, str(len(nothing)), mean_and_std(nothing), *gains))} |")
    write_table("forget", lines)


if __name__ == "__main__":
    main()
