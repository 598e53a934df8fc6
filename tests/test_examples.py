"""The examples run as they are, from a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_images() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    command = [sys.executable, str(EXAMPLES / "images.py"), "--rounds", "180"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "120"})
    assert done.returncode == 0, done.stderr
    conv = next(line for line in done.stdout.splitlines() if "LiM2, conv net" in line)
    thirds = [int(cell.strip(" %")) for cell in conv.split("│")[2:5]]
    assert thirds[2] > max(thirds[0], 25), f"chance is 10%: {thirds}"
