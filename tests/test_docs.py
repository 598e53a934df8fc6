"""Pages of the documentation whose examples run."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("page", ["arms.md"])
def test_examples_give_what_the_page_says(page: str) -> None:
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=options)
    assert result.attempted > 5
    assert result.failed == 0
