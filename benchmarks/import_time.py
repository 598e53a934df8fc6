"""How long `import lim2` takes, next to importing NumPy and SciPy: `python -m benchmarks.import_time`.

Fresh processes in turn, and the CPU time of each; what is shown is the median of the ratios of neighbours.
`import lim2` imports a module when one of its names is first used. What that costs is measured, too, next to the
modules of NumPy and SciPy that it stands on.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

# What is measured, and what next to.
PAIRS = {
    "import lim2": ("import lim2", "import numpy, scipy"),
    "from lim2 import DecisionLog": ("from lim2 import DecisionLog", "import numpy, scipy.linalg, scipy.special"),
    "from lim2 import AdaptiveTS": ("from lim2 import AdaptiveTS", "import numpy, scipy.linalg, scipy.special"),
    "from lim2 import Bandit": ("from lim2 import Bandit", "import numpy, scipy.linalg, scipy.special"),
}


def cpu_seconds(python: str, code: str) -> float:
    """Return the CPU time that a fresh process takes for some code, its start included."""
    command = [python, "-c", f"{code}\nimport time\nprint(time.process_time())"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def ratios(python: str, runs: int, code: str, beside: str) -> list[float]:
    """Return the ratios of neighbours, after one of each that counts for nothing."""
    found = []
    for turn in range(runs + 1):
        times = [cpu_seconds(python, part) for part in (code, beside)]
        if turn:
            found.append(times[0] / times[1])
    return found


def measured(python: str = sys.executable, runs: int = 21) -> dict[str, float]:
    """Return the median ratio of each."""
    return {name: statistics.median(ratios(python, runs, *pair)) for name, pair in PAIRS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="Of the environment to measure.")
    parser.add_argument("--runs", type=int, default=21)
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as for a user: compiled once
    sys.stdout.write(json.dumps(measured(given.python, given.runs), indent=1) + "\n")


if __name__ == "__main__":
    main()
