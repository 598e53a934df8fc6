"""README tells the truth: its tables are those of the benchmark's results, and its code runs."""

import re
from pathlib import Path

import numpy as np
import pytest

import lim2
from benchmarks.readme import PAGES, README, SPEED_PAGE, filled, speed_page


def test_tables_are_those_of_the_results() -> None:
    for page, parts in PAGES.items():
        assert page.read_text() == filled(page.read_text(), parts), f"{page.name}: run `python -m benchmarks.readme`"
    text = README.read_text()
    assert SPEED_PAGE.read_text() == speed_page(), "run `python -m benchmarks.readme`"
    assert "| LiM2 / its floor |" in text
    assert "| **Average** |" in text


def test_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # an agent is saved
    rng = np.random.default_rng(0)
    for block in re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL):
        exec(block, {"lim2": lim2, "context": rng.normal(size=9), "reward": 1.0})
