"""How often the intervals of off-policy evaluation cover the true value, by how much the log is worth.

python -m benchmarks.coverage [replications]
"""

import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from evaluation.test_coverage import TRUTH, logged_table, target

from lim2.evaluation import OverlapWarning, evaluate


def main(replications: int) -> None:
    print("| decisions | effective | IPS | SNIPS | doubly robust | warned |\n|---|---|---|---|---|---|")
    for rows in (150, 300, 600, 1200, 2400):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)
            tables = (logged_table(seed, rows) for seed in range(replications))
            found = [evaluate(table, target(table.contexts)) for table in tables]
        estimates = [[getattr(e, name) for e in found] for name in ("ips", "snips", "dr")]
        rates = [np.mean([e.low <= TRUTH <= e.high for e in column]) for column in estimates]
        worth, warned = np.mean([e.effective_size for e in found]), np.mean([bool(e.warnings) for e in found])
        print(f"| {rows} | {worth:.0f} | " + " | ".join(f"{rate:.1%}" for rate in rates) + f" | {warned:.0%} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
