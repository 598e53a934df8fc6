"""The guide to production runs, block by block, in a fresh process, with its real crash."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import postgres

GUIDE = Path(__file__).parent.parent / "docs" / "guides" / "application.md"
DATABASE = "postgresql://shop@db.internal/decisions#banners"  # a real one takes its place


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


def without_numbers(text: str) -> str:
    return " ".join(re.sub(r"-?\d+(\.\d+)?", "#", text).split())


def test_the_guide_runs(tmp_path: Path) -> None:
    shop, *steps = blocks("python")
    assert shop.startswith("# shop.py\n")
    (tmp_path / "shop.py").write_text(shop)
    # On another machine decisions may differ, and with them the overlap.
    quiet = "import warnings, lim2.evaluation as e\nwarnings.simplefilter('ignore', e.OverlapWarning)\n"
    if reason := postgres.missing():
        pytest.skip(reason)
    text = "\n".join(steps)
    assert text.count(DATABASE) == 1
    (tmp_path / "guide.py").write_text(quiet + text.replace(DATABASE, postgres.address(tmp_path)))
    done = subprocess.run([sys.executable, "-W", "error", "guide.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (table,) = blocks("text")
    assert without_numbers(table) in without_numbers(done.stdout)
