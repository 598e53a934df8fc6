"""The documentation tells the truth: its code runs, its commands exist, its site builds, its links lead somewhere."""

import ast
import doctest
import functools
import importlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from helpers.kept import with_results
from helpers.pages import DOCS, PAGES, ROOT, Block, blocks, without_numbers

from lim2.cli import program as typer_program
from lim2.evaluation import OverlapWarning
from lim2.problems import MissingDataError
from tools.imports_of_tests import PUBLIC

# Pages whose Python is tested elsewhere: against a service, in a process that is killed, or as a part of a file.
ELSEWHERE = {
    "guides/application.md": "tests/test_production.py",
    "guides/client.md": "tests/client/test_snippets.py",
    "tutorial/service.md": "tests/serve/test_serve_docs.py",
    "research/adding-an-algorithm.md": "tests/test_adding_an_algorithm.py",
    "research/paper-to-code.md": "test_code_of_the_paper_is_code_of_lim2, below",
}
DOCTESTS = ("guides/arms.md", "guides/batches.md")
# Other languages: tests/client/test_snippets.py runs them against a service.
FOREIGN = ("ts", "go", "php")
# What would take hours or need a dataset's whole file is shortened.
SHORTER = {
    "research/experiments.md": [("5000", "60"), ("runs=10", "runs=1"), ('"statlog"', '"linear"')],
    "research/problems.md": [("rounds=5000", "rounds=100"), ("rounds=4000", "rounds=50")],
    "guides/networks.md": [("rounds=5000", "rounds=20")],
}
NEEDS = {"guides/networks.md": "torch"}


def name(page: Path) -> str:
    return page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).as_posix()


def shells() -> list[Block]:
    return [block for page in PAGES for block in blocks(page, "sh", "console", "")]


RUN = [page for page in PAGES if blocks(page, "python") and name(page) not in (*ELSEWHERE, *DOCTESTS)]


@pytest.mark.parametrize("page", RUN, ids=name)
def test_blocks_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the page says is printed is printed, except for numbers, which differ between machines."""
    if name(page) in NEEDS:
        pytest.importorskip(NEEDS[name(page)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page, "python"):
        text = block.text
        for long, short in SHORTER.get(name(page), []):
            text = text.replace(long, short)
        code = compile("\n" * (block.line - 1) + text, str(page), "exec")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # few decisions are evaluated, to be quick
            try:
                exec(code, known)
            except MissingDataError as error:
                pytest.skip(str(error))
    printed = without_numbers(capsys.readouterr().out)
    for block in blocks(page, "text"):
        assert without_numbers(block.text) in printed, block.where


@pytest.mark.parametrize("page", DOCTESTS)
def test_examples_give_what_the_page_says(page: str) -> None:
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=options)
    assert result.attempted > 5
    assert result.failed == 0


def test_code_of_the_paper_is_code_of_lim2() -> None:
    """docs/research/paper-to-code.md shows lines of these files."""
    source = ROOT / "src" / "lim2"
    files = ("algorithms/lim2.py", "algorithms/neural.py", "matching.py", "exploration/posterior.py")
    lines = [
        line.strip()
        for file in (*files, "exploration/thompson.py")
        for line in (source / file).read_text().splitlines()
    ]
    shown = [
        (block.where, line.strip())
        for block in blocks(DOCS / "research" / "paper-to-code.md", "python")
        for line in block.text.splitlines()
    ]
    assert len(shown) > 20
    assert [(where, line) for where, line in shown if line not in lines] == []


def test_every_block_is_of_a_known_kind() -> None:
    checked = {"python", "text", "sh", "console", "", "toml", "json", "yaml", *FOREIGN}
    assert [block.where for page in PAGES for block in blocks(page) if block.language not in checked] == []


@pytest.mark.parametrize("kind", ["toml", "json", "yaml"])
def test_data_can_be_read(kind: str) -> None:
    found = [block for page in PAGES for block in blocks(page, kind)]
    assert found
    for block in found:
        try:
            if kind == "toml":
                tomllib.loads(block.text)
            elif kind == "yaml":
                yaml.safe_load(block.text)
            else:
                for line in block.text.splitlines():
                    json.loads(line)
        except ValueError as error:
            raise AssertionError(block.where) from error


def commands(block: Block) -> list[list[str]]:
    """Return the words of each command of a block."""
    joined = re.sub(r"\\\n\s*", " ", block.text)
    lines = [line.removeprefix("$ ") for line in joined.splitlines()]
    found = [
        shlex.split(line, comments=True) for line in lines if re.match(r"(\w+=\S+ )*(lim2|python|make|pip) ", line)
    ]
    return [_without_variables(words) for words in found]


def _without_variables(words: list[str]) -> list[str]:
    return _without_variables(words[1:]) if words and re.match(r"\w+=", words[0]) else words


@functools.cache
def program() -> Any:
    return typer.main.get_command(typer_program())


def parse(words: list[str]) -> None:
    """Let click read a command line of lim2, without running it."""
    command = program()
    context = typer.Context(command, info_name="lim2")
    while hasattr(command, "commands"):
        rest = command.make_parser(context).parse_args(list(words))[1]
        if not rest:
            return
        command, words = command.commands[rest[0]], rest[1:]
        context = typer.Context(command, parent=context)
    command.make_parser(context).parse_args(list(words))


def test_commands_exist() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    read = 0
    for block in shells():
        for words in commands(block):
            read += 1
            if words[0] == "lim2":
                try:
                    parse(words[1:])
                except Exception as error:
                    error.add_note(f"{block.where}: {' '.join(words)}")
                    raise
            elif words[:2] == ["python", "-m"] and words[2].startswith(("benchmarks", "lim2", "tools")):
                assert importlib.util.find_spec(words[2]), f"{block.where}: {' '.join(words)}"
            elif words[0] == "make":
                assert words[1] in targets, f"{block.where}: {' '.join(words)}"
            elif words[:2] == ["pip", "install"]:
                wanted = [
                    one for word in words for part in re.findall(r"lim2\[(.*?)\]", word) for one in part.split(",")
                ]
                assert set(wanted) <= set(extras), f"{block.where}: {' '.join(words)}"
    assert read > 40


def test_a_command_that_does_not_exist_is_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(["bench", "--problem", "linear"])
    with pytest.raises(KeyError):
        parse(["data", "fetsch"])


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "zensical.toml").read_text()
    pages = [name(page) for page in PAGES[1:] if not page.is_relative_to(DOCS / "results")]
    assert [page for page in pages if f'"{page}"' not in text] == [], "add them to nav in zensical.toml"


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: (\S+)", text, flags=re.MULTILINE))
    module, missing = importlib.import_module(package), []
    for public in module.__all__:
        home = getattr(getattr(module, public), "__module__", package)
        described = home in shown or any(path.startswith("lim2.") and path.endswith(f".{public}") for path in shown)
        if not described and f"`{package}.{public}" not in text:
            missing.append(public)
    assert missing == [], f"add them to docs/reference, or take them out of __all__ of {package}"


def test_descriptions_of_parameters_are_indented_by_four() -> None:
    """Deeper ones are shown as code."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [
        f"{path.name}, {node.name}: {line}"
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds)
        for line in re.findall(r"^[\w*, ]+\n {5,}\S.*", ast.get_docstring(node) or "", flags=re.MULTILINE)
    ]
    assert found == []


@with_results  # pages show them
def test_site() -> None:
    """It builds without a warning, its links lead somewhere, and nothing on it is fetched from the network."""
    pytest.importorskip("zensical")
    pytest.importorskip("mkdocstrings")
    from tools.links import problems

    where = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=ROOT, env=where, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "No issues found" in said
    assert not re.search(r"warning|griffe|error", said, flags=re.IGNORECASE), said
    assert list(problems(ROOT / "site")) == []
    text = (ROOT / "site" / "concepts" / "algorithms.html").read_text()
    assert text.count("<math") > 20
    assert "$$" not in text
    for page, shown in (("log", "DecisionLog.decide"), ("client", "Client.decide"), ("bandit", "Bandit.decide")):
        assert f'{shown}"' in (ROOT / "site" / "reference" / f"{page}.html").read_text(), shown
    commands = (ROOT / "site" / "reference" / "command-line.html").read_text()
    assert (
        "Rerun the experiments of the paper, and compare tables and figures with the published ones"
        in commands.partition("<h2")[0]
    )  # not cut
    assert '<td class="prose long"' in (ROOT / "site" / "research" / "problems.html").read_text()
    assert "/v1/bandits/{name}/decide" in (ROOT / "site" / "reference" / "http.html").read_text()


def test_broken_sites_are_found(tmp_path: Path) -> None:
    from tools.links import problems

    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="b.html#not">2</a><a href="c.html">3</a><a href="../x.md">4</a>'
        '<script src="https://example.org/x.js"></script><a href="https://example.org">5</a>'
    )
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1>')
    (tmp_path.parent / "x.md").write_text("outside")
    assert list(problems(tmp_path)) == [
        "a.html: b.html#not has no such anchor",
        "a.html: there is no c.html",
        "a.html: there is no ../x.md",
        "a.html fetches https://example.org/x.js from the network",
    ]
