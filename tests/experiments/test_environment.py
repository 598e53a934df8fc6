"""What identifies the code that decides results."""

from pathlib import Path

import lim2
from lim2.experiments.environment import DECIDING, code


def test_what_decides_exists() -> None:
    root = Path(lim2.__file__).parent
    assert all((root / name).exists() for name in DECIDING)
    assert len(code()) == 12


def test_everything_an_agent_is_made_of_decides() -> None:
    root = Path(lim2.__file__).parent
    parts = {path.name for path in root.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    above = {
        "bandit",
        "client",
        "commands",
        "encoding",
        "evaluation",
        "experiments",
        "log",
        "paper",
        "persistence",
        "serve",
    }
    assert parts - above == {name for name in DECIDING if not name.endswith(".py")}
