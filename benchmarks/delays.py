"""`python -m benchmarks.delays RESULTS`: keep what late rewards and batches cost, for the table of docs/bench.md.

RESULTS is the folder of `lim2 bench --suite benchmarks/suites/delay.toml`. Its mean rewards are kept in
benchmarks/results/delay.json; `python -m benchmarks.readme` puts them into the page.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from lim2.experiments.feedback import Feedback
from lim2.experiments.report.markdown import table
from lim2.experiments.report.texts import number
from lim2.experiments.store import opened
from lim2.experiments.summary import summarize

KEPT = Path(__file__).parent / "results" / "delay.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    kept = []
    for row in summarize(opened(parser.parse_args().results).frames()[0]):
        feedback = Feedback(row.get("delay", 0), row.get("batch", 1))
        entry = {"problem": feedback.unlabelled(row["problem"]), "agent": row["agent"], **vars(feedback)}
        kept.append({**entry, "runs": row["runs"], "rounds": row["rounds"], "reward": row["reward_mean"]})
    KEPT.write_text("[\n" + ",\n".join(f" {json.dumps(entry)}" for entry in kept) + "\n]\n")


def report() -> str:
    """Return the mean rewards, with a column for each delay and batch."""
    rewards: dict[tuple[str, str], dict[Feedback, float]] = {}
    kept: list[dict[str, Any]] = json.loads(KEPT.read_text())
    for row in kept:
        where = Feedback(row["delay"], row["batch"])
        rewards.setdefault((row["problem"], row["agent"]), {})[where] = row["reward"]
    ways = sorted({way for by in rewards.values() for way in by}, key=lambda way: (way.batch, way.delay))
    rows = [[*names, *(number(by[way]) for way in ways)] for names, by in rewards.items()]
    return "\n".join(table(["problem", "agent", *(way.name for way in ways)], rows, left=2))


if __name__ == "__main__":
    main()
