"""The code of a run: digests of the syntax trees of the modules that it imports.

Comments, docstrings and layout do not count. Left out are modules that serve, log, save or report, and those that only
list others: the registries, and each ``__init__`` that defines nothing. So an edit of one algorithm leaves the runs of
another as they are.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import lim2

ROOT = Path(lim2.__file__).parents[1]
SKIPPED = (
    "lim2.serve", "lim2.client", "lim2.commands", "lim2.cli", "lim2.log", "lim2.evaluation", "lim2.persistence",
    "lim2.loading", "lim2.experiments.report",
)  # fmt: skip
REGISTRIES = ("lim2.agents", "lim2.problems.registry", "lim2.experiments.names")
# Each is for some kinds of problems or agents only: a root of their runs.
KINDS = ("lim2.experiments.dictionaries", "lim2.experiments.items", "lim2.experiments.peers")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class ChangedError(RuntimeError):
    """Code or data changed between the plan and the run, or while a process had it loaded."""


def tree_digest(text: str) -> str:
    r"""Return a digest of a source's syntax tree, without docstrings.

    Examples
    --------
    >>> one = tree_digest("def f(x):\n    return x + 1")
    >>> one == tree_digest("def f(x):  # a comment\n    'Add.'\n\n    return (x+1)")
    True
    >>> one == tree_digest("def f(x):\n    return x + 2")
    False
    """
    try:
        tree = repr(_plain(ast.parse(textwrap.dedent(text))))
    except SyntaxError:  # a part of a notebook
        tree = text
    return hashlib.sha256(tree.encode()).hexdigest()[:12]


def _plain(node: Any) -> Any:
    """Return a tree as tuples of what is in it; fields that are empty differ between versions of Python."""
    if isinstance(node, list):
        return tuple(map(_plain, node))
    if not isinstance(node, ast.AST):
        return node
    fields = dict(ast.iter_fields(node))
    if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    return type(node).__name__, *((name, _plain(value)) for name, value in fields.items() if value not in (None, []))


def modules_of(roots: Iterable[str]) -> dict[str, str]:
    """Return the digests of modules and of all modules that they import, by name.

    Of modules from outside lim2, those beside the roots count.

    Examples
    --------
    >>> found = modules_of(["lim2.algorithms.lim2"])
    >>> "lim2.matching" in found, "lim2.algorithms.linear_ts" in found, "lim2.log.decision_log" in found
    (True, False, False)
    """
    waiting = list(roots)
    folders = list(filter(None, map(_folder, waiting)))
    digests: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        file = None if name in digests or _is_left_out(name) else _file(name, folders)
        if file is None:
            continue
        digest, imported, only_lists = _read(file, *_stamp(file))
        if not only_lists:
            digests[name] = digest
            waiting += _resolved(name, file, imported, folders)
    return dict(sorted(digests.items()))


def digest_of(modules: Mapping[str, str]) -> str:
    """Return one digest for several modules."""
    return hashlib.sha256(repr(sorted(modules.items())).encode()).hexdigest()[:12]


def fingerprint(thing: Any) -> str:
    """Identify a user's class or function by its module and what that imports, or by its own source in a notebook."""
    thing = inspect.unwrap(thing)
    module = str(getattr(thing, "__module__", ""))
    if module.partition(".")[0] == "lim2":
        return ""  # the code of a run tells
    found = modules_of([module])
    if found:
        return digest_of({name: digest for name, digest in found.items() if name.partition(".")[0] != "lim2"})
    try:
        return tree_digest(inspect.getsource(thing))
    except (OSError, TypeError):  # typed into a prompt, or compiled
        return ""


def here() -> str:
    """Return a digest of everything in lim2 that decides."""
    folder = ROOT / "lim2"
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in folder.rglob("*.py")]
    return digest_of(modules_of(name.removesuffix(".__init__") for name in names))


def of_run(*makers: Callable[..., Any] | str) -> dict[str, str]:
    """Return the modules of a run: of the runner, and of functions and modules that it calls.

    Raises a `ChangedError` if a file has changed since this process first used it: what is loaded is another version.
    """
    names = [maker if isinstance(maker, str) else str(inspect.unwrap(maker).__module__) for maker in makers]
    found = modules_of(["lim2.experiments.runner", "lim2.agent", *names])
    for name, digest in found.items():
        if _loaded.setdefault(name, digest) != digest:
            raise ChangedError(f"the file of {name} was edited while this process had it loaded; run again")
    return found


_loaded: dict[str, str] = {}


def _is_left_out(name: str) -> bool:
    return name in REGISTRIES or any(name == part or name.startswith(f"{part}.") for part in SKIPPED)


def _folder(root: str) -> Path | None:
    """Return the folder from which a user's module was imported; None for lim2's and unknown ones."""
    file = getattr(sys.modules.get(root), "__file__", None)
    if file is None or root == "__main__" or root.partition(".")[0] == "lim2":
        return None
    return Path(file).parents[root.count(".") + (Path(file).name == "__init__.py")]


def _file(name: str, folders: Iterable[Path]) -> Path | None:
    parts = name.split(".")
    for folder in (ROOT,) if parts[0] == "lim2" else folders:
        path = folder.joinpath(*parts)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file() and "site-packages" not in folder.parts[-1:]:
                return file
    return None


def _stamp(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=2048)
def _read(file: Path, _changed: int, _size: int) -> tuple[str, tuple[tuple[int, str, str], ...], bool]:
    """Return a file's digest, what it imports (level, module, a name in it or ""), and whether it only lists others."""
    text = file.read_text(encoding="utf-8")
    imported: list[tuple[int, str, str]] = []
    try:
        tree = ast.parse(text)
    except SyntaxError:
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [(0, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported += [(node.level, node.module or "", alias.name) for alias in node.names]
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    only_lists = file.name == "__init__.py" and not set(defined) - {"__getattr__", "__dir__"}
    return tree_digest(text), tuple(imported), only_lists


def _resolved(
    name: str, file: Path, imported: Iterable[tuple[int, str, str]], folders: Iterable[Path]
) -> Iterator[str]:
    """Yield the modules behind imports; a name that a package passes on is looked up where it comes from."""
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for level, module, part in imported:
        parts = package[: len(package) - level + 1] if level else []
        source = ".".join([*parts, *([module] if module else [])])
        if part and _file(f"{source}.{part}", folders) is not None:
            found = f"{source}.{part}"
        else:
            found = _passed_on(source, part, folders)
        if found not in KINDS:
            yield found


def _passed_on(package: str, part: str, folders: Iterable[Path]) -> str:
    file = _file(package, folders)
    if file is not None and file.name == "__init__.py" and part:
        for level, module, name in _read(file, *_stamp(file))[1]:
            if name == part and level == 0:
                return module if _file(f"{module}.{name}", folders) is None else f"{module}.{name}"
    return package
