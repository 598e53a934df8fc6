from __future__ import annotations

from pathlib import Path

import pytest

import lim2.problems
from tools.problem_tables import renewed

PAGE = Path(__file__).parents[2] / "docs" / "research" / "problems.md"


def test_the_tables_are_those_of_the_registry() -> None:
    assert renewed(PAGE.read_text()) == PAGE.read_text(), "run `python -m tools.problem_tables`"


def test_every_problem_is_in_it() -> None:
    page = PAGE.read_text()
    assert [name for name in lim2.problems.list() if f"| `{name}` |" not in page] == []


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the marks"):
        renewed("# Problems\n")
