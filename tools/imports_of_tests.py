"""List the test files that import what docs/reference does not show: `python -m tools.imports_of_tests`.

Public are the packages below with the names in their `__all__`, and every name or module that a page of docs/reference
shows. Helpers of the tests are not counted.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = (
    "lim2", "lim2.algorithms", "lim2.bandit", "lim2.client", "lim2.encoding", "lim2.evaluation", "lim2.experiments",
    "lim2.exploration", "lim2.log", "lim2.problems", "lim2.representation",
)  # fmt: skip


@cache
def shown() -> frozenset[str]:
    """Return the paths of the names and modules that the pages of the reference show."""
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    return frozenset(re.findall(r"^::: (\S+)", "".join(map(Path.read_text, pages)), flags=re.MULTILINE))


def is_public(path: str) -> bool:
    """Return whether a name, a module or a package is public.

    >>> is_public("lim2.problems.load"), is_public("lim2.matching.match"), is_public("lim2.problems.errors.DataError")
    (True, True, True)
    >>> is_public("lim2.learner.Learner")
    False
    """
    package, _, name = path.rpartition(".")
    if path in PUBLIC or path in shown() or package in shown():
        return True
    if package not in PUBLIC:
        return False
    below = any(other.startswith(f"{package}.") and other.endswith(f".{name}") for other in shown())
    return below or name in importlib.import_module(package).__all__


def imported(text: str) -> Iterator[str]:
    r"""Yield what a file imports of lim2, also within functions.

    >>> list(imported("import numpy, lim2.log\nfrom lim2.state import flat, with_arm\nfrom lim2 import Bandit"))
    ['lim2.log', 'lim2.state.flat', 'lim2.state.with_arm', 'lim2.Bandit']
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == "lim2")


def inward(tests: Path) -> dict[str, list[str]]:
    """Return the test files that import anything that is not public, with what it is."""
    found = {
        path.relative_to(tests).as_posix(): sorted({n for n in imported(path.read_text()) if not is_public(n)})
        for path in sorted(tests.rglob("test_*.py"))
    }
    return {file: names for file, names in found.items() if names}


def main() -> None:
    """Print the files and their number."""
    files = inward(ROOT / "tests")
    for file, names in files.items():
        print(f"{file}: {', '.join(names)}")
    every = len(list((ROOT / "tests").rglob("test_*.py")))
    print(f"{len(files)} of {every} test files import what docs/reference does not show.")


if __name__ == "__main__":
    main()
