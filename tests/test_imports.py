"""What importing lim2 must not cost, and what a fresh process can do without a writable cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lim2

FORBIDDEN = (
    "torch",
    "polars",
    "matplotlib",
    "typer",
    "rich",
    "jinja2",
    "cloudpickle",
    "pooch",
    "ray",
    "sqlite3",
    "starlette",
    "uvicorn",
    "msgspec",
    "prometheus_client",
    "psycopg",
    "http",
    "asyncio",
)


def run(code: str, **environment: str) -> str:
    own = {"PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=own)
    return done.stdout


def test_importing_lim2_imports_nothing_heavy() -> None:
    loaded = run("import sys, lim2, lim2.problems, lim2.bandit; print(*sys.modules)").split()
    assert not {name.split(".")[0] for name in loaded} & set(FORBIDDEN)


def test_the_product_runs_without_the_research_wing() -> None:
    code = """
import sys, lim2.bandit, lim2.client, lim2.evaluation, lim2.log, lim2.serve
lim2.log.read_open_bandit, lim2.log.Table.of([[0.0]], ["a"], [1.0], [0.5])
print(*(name for name in sys.modules if name.startswith(("lim2.problems", "lim2.experiments", "lim2.paper"))))
"""
    assert run(code).split() == []


def test_importing_lim2_alone_imports_nothing_at_all() -> None:
    loaded = run("import sys; before = set(sys.modules); import lim2; print(*set(sys.modules) - before)").split()
    assert {name for name in loaded if name.startswith("lim2")} == {"lim2"}
    assert {name.split(".")[0] for name in loaded} - {"lim2"} <= set(sys.stdlib_module_names)


def test_all_names_are_there_when_they_are_used() -> None:
    names = [*lim2.__all__, *lim2._PACKAGES, *lim2._MODULES]
    assert {*lim2._HOMES, "problems"} == set(lim2.__all__)
    assert set(lim2.__all__) <= set(dir(lim2))
    for name in names:
        assert getattr(lim2, name) is not None
    code = "from lim2 import *; import lim2; print(Bandit.__name__, lim2.log.Table.__name__, hasattr(lim2, 'Bandits'))"
    assert run(code).split() == ["Bandit", "Table", "False"]


def test_a_decision_needs_no_writable_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    code = """
import lim2
agent = lim2.LiM2(n_arms=7, n_features=9, seed=0)
for _ in range(20):
    agent.update([0.5] * 9, agent.act([0.5] * 9), 1.0)
print(agent.rounds)
"""
    out = run(code, HOME=str(tmp_path), TMPDIR=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    assert out.split() == ["20"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("threads", [2])
def test_threads_of_blas_are_given_back(threads: int) -> None:
    code = f"""
import lim2, numpy as np
from threadpoolctl import threadpool_limits, threadpool_info
from lim2.representation import MLP
def counts():
    return [pool["num_threads"] for pool in threadpool_info() if pool["internal_api"] == "openblas"]
inside = []
class Spy(MLP):
    def features(self, *args):
        inside.extend(counts())
        return super().features(*args)
agent = lim2.LiM2(n_arms=2, n_features=3, representation=Spy((5,)), seed=0)
with threadpool_limits({threads}):
    before = counts()
    for _ in range(6):
        agent.update([0.5] * 3, agent.act([0.5] * 3), 1.0)
    try:
        agent.act([0.5])
    except ValueError:
        pass
    print(before == counts() == [{threads}] * len(before), len(before) > 0, set(inside))
"""
    assert run(code).split() == ["True", "True", "{1}"]


def test_a_worker_imports_no_more_than_it_needs() -> None:
    loaded = run("import sys, lim2.experiments.worker, lim2.experiments.runner; print(*sys.modules)").split()
    assert not {name.split(".")[0] for name in loaded} & set(FORBIDDEN)
