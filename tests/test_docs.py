"""Pages of the documentation whose examples run."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("page", ["arms.md", "batches.md"])
def test_examples_give_what_the_page_says(page: str) -> None:
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=options)
    assert result.attempted > 5
    assert result.failed == 0


def without_numbers(text: str) -> str:
    return " ".join(re.sub(r"-?\d+(\.\d+)?", "#", text).split())


@pytest.mark.parametrize("page", ["json-events.md", "catalogue.md"])
def test_blocks_run_in_order(page: str, tmp_path: Path) -> None:
    """In a fresh process; what the page says is printed is printed, but for numbers, which differ between machines."""
    text = (DOCS / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) > 5
    # Few decisions are evaluated, to be quick: the overlap is poor, and lim2 says so.
    quiet = "import warnings, lim2.evaluation as e\nwarnings.simplefilter('ignore', e.OverlapWarning)\n"
    (tmp_path / "page.py").write_text(quiet + "\n".join(blocks))
    done = subprocess.run([sys.executable, "-W", "error", "page.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for printed in re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL):
        assert without_numbers(printed) in without_numbers(done.stdout)
