"""The examples run as they are, from a fresh process."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = {  # what they are run with here, and something that they print
    "quickstart.py": ([], "DE, 25 years: shoes"),
    "catalogue.py": (["--rounds", "400"], "a slate of three: sku"),
    "late_rewards.py": (["--visitors", "110"], "a replay gives the same bandit: True"),
    "own_algorithm.py": ([], "a guess earns 500"),
    "fastapi_app.py": (["--visitors", "60"], "answered 60 visitors"),
    "own_network.py": (["--rounds", "180"], "LiM2, conv net"),
    "tune_with_optuna.py": (["--trials", "2", "--rounds", "60"], "On problems that the search has not seen"),
    "log_to_mlflow.py": ([], "2 runs logged to mlruns"),
}
NEEDS = {
    "fastapi_app.py": ("fastapi", "uvicorn"),
    "own_network.py": ("torch", "sklearn"),
    "tune_with_optuna.py": ("optuna",),
    "log_to_mlflow.py": ("mlflow",),
}
NOTEBOOKS = ("own_csv.ipynb", "off_policy.ipynb")


def run(*command: str, cwd: Path) -> str:
    where = {**os.environ, "COLUMNS": "120", "MPLBACKEND": "agg"}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=where, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def skip_without(*modules: str) -> None:
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def test_no_example_is_forgotten() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")} == {*SCRIPTS, *NOTEBOOKS}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    skip_without(*NEEDS.get(name, ()))
    options, shown = SCRIPTS[name]
    printed = run("-W", "error", str(EXAMPLES / name), *options, cwd=tmp_path)
    assert shown in printed
    if name == "own_network.py":
        conv = next(line for line in printed.splitlines() if shown in line)
        thirds = [int(cell.strip(" %")) for cell in conv.split("│")[2:5]]
        assert thirds[2] > max(thirds[0], 25), f"chance is 10%: {thirds}"


PLAY = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300).execute()
assert any("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))
"""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    skip_without("nbclient", "ipykernel")
    where = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    command = [sys.executable, "-c", PLAY, str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=where)
    assert done.returncode == 0, done.stdout + done.stderr
