"""What holds where PyTorch is not installed, or not asked for."""

import subprocess
import sys

import pytest

BLOCK = "import sys; sys.modules['torch'] = None  # as if it were not installed\n"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("name", ["Torch", "TextCNN"])
def test_the_error_says_what_to_install(name: str) -> None:
    code = f"""
try:
    from lim2.representation import {name}
except ImportError as error:
    print(type(error).__name__, error)
"""
    told = run(BLOCK + code)
    assert told.startswith(f"MissingExtraError {name} needs torch")
    assert "pip install 'lim2[torch]'" in told


def test_all_else_works_without_it() -> None:
    code = """
import lim2
from lim2.representation import *
agent = lim2.LiM2(2, 3, representation=MLP((4,)), seed=0)
agent.update([0.1] * 3, agent.act([0.1] * 3), 1.0)
print(agent.rounds, getattr(lim2.representation, "Tensor", None))
"""
    assert run(BLOCK + code).split() == ["1", "None"]


def test_agents_do_not_import_it() -> None:
    code = "import sys, lim2; lim2.LiM2(2, 3).act([0.0] * 3); import lim2.representation; print('torch' in sys.modules)"
    assert run(code).split() == ["False"]


def test_names_are_public_and_lazy() -> None:
    pytest.importorskip("torch")
    code = """
import sys, lim2.representation as r
before = "torch" in sys.modules
print(before, r.Torch.__name__, r.TextCNN.__name__, "torch" in sys.modules)
"""
    assert run(code).split() == ["False", "Torch", "TextCNN", "True"]
