"""Run agents on problems: plan -> runs -> results -> report, each readable alone.

>>> from lim2.experiments import bench
>>> results = bench(["wheel"], ["LiM2", "LinearTS"], rounds=1000, runs=3, out="results")  # doctest: +SKIP
>>> results.report  # doctest: +SKIP
PosixPath('results/report.html')
"""

from lim2.experiments.benchmark import Results, bench
from lim2.experiments.names import PlanError, Spec
from lim2.experiments.plan import Plan, Run
from lim2.experiments.runner import play, run_once
from lim2.experiments.store import Store

__all__ = ["Plan", "PlanError", "Results", "Run", "Spec", "Store", "bench", "play", "run_once"]
