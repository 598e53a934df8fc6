"""Experiments: run agents on problems, store results, write reports.

>>> from lim2.experiments import bench
>>> results = bench(["wheel"], ["LiM2", "LinearTS"], rounds=1000, runs=3, out="results")  # doctest: +SKIP
>>> results.report  # doctest: +SKIP
PosixPath('results/report.html')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lim2.extras import needs

if TYPE_CHECKING:
    from lim2.experiments.benchmark import Results, bench
    from lim2.experiments.feedback import Feedback
    from lim2.experiments.names import PlanError, Spec
    from lim2.experiments.plan import Plan, Run
    from lim2.experiments.runner import play, run_once
    from lim2.experiments.store import Store

__all__ = ["Feedback", "Plan", "PlanError", "Results", "Run", "Spec", "Store", "bench", "play", "run_once"]

# Imported when first used: a process that only runs needs no tables, no progress bars and no report.
_MODULES = {
    "Feedback": "feedback",
    "Plan": "plan",
    "PlanError": "names",
    "Results": "benchmark",
    "Run": "plan",
    "Spec": "names",
    "Store": "store",
    "bench": "benchmark",
    "play": "runner",
    "run_once": "runner",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs("lim2.experiments", "bench"):
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
