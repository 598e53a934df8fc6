"""What is installed only on request: the table of extras is that of the package, and what is missing is named.

Absence is real: Python runs without its site-packages, on a folder that holds NumPy, SciPy, threadpoolctl, and what a
test adds.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import lim2
from lim2.extras import EXTRAS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
CORE = ("numpy", "scipy", "threadpoolctl")


def link(site: Path, *distributions: str) -> None:
    """Put installed distributions into a folder, and what they require."""
    for name in distributions:
        found = distribution(name)
        for top in sorted({Path(file).parts[0] for file in found.files or () if ".." not in Path(file).parts}):
            place = site / top
            if not place.exists() and not top.endswith((".pth", "__pycache__")):
                place.symlink_to(str(found.locate_file(top)))
        for line in found.requires or ():
            required = re.match(r"[\w.-]+", line)
            if required and "extra ==" not in line and not (site / f"{required[0]}.seen").exists():
                (site / f"{required[0]}.seen").touch()
                try:
                    link(site, required[0])
                except PackageNotFoundError:  # of another system or version of Python
                    continue


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages as `pip install lim2` makes it."""
    site = tmp_path_factory.mktemp("site")
    link(site, *CORE)
    return site


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages as `pip install 'lim2[cli]'` makes it."""
    site = tmp_path_factory.mktemp("cli")
    link(site, *CORE, "typer", "rich")
    return site


def python(site: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(SOURCE), str(site)]), "COLUMNS": "80"}
    command = [sys.executable, "-S", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd or site)


def test_the_table_is_that_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def names(extra: str) -> set[str]:
        found: set[str] = set()
        for line in declared[extra]:
            own = re.fullmatch(r"lim2\[([\w,]+)\]", line)
            if own:
                found = found.union(*(names(part) for part in own[1].split(",")))
            else:
                found.add(re.split(r"[<>=\[]", line)[0])
        return found

    assert set(EXTRAS) == set(declared)
    for extra, modules in EXTRAS.items():
        found = {name.lower().replace("-", "_") for name in names(extra)}
        assert set(modules) == found, extra
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [re.split(r"[<>=]", line)[0] for line in required] == list(CORE)


NEEDS = {
    "from lim2.representation import Torch": r"Torch needs torch.*lim2\[torch\]",
    "lim2.log.Table.from_frame('x.csv', arm='a', reward='r', propensity='p', context='x')": "reading CSV and .*data",
    "lim2.log.read_open_bandit('x')": "read_open_bandit needs polars.*data",
    "lim2.problems.load('mode-canada')": "the user's folder of datasets needs pooch.*data",
    "lim2.problems.from_csv('x.csv', 'y')": "reading a table needs polars.*data",
    "lim2.experiments.bench": "lim2.experiments needs (rich|polars|cloudpickle).*bench",
    "from lim2.problems.fetch import fetch; from lim2.problems.sources import SOURCES; from pathlib import Path; "
    "fetch(SOURCES['car.csv'], Path('x'))": "fetching a dataset needs pooch.*data",
}


def test_the_library_says_what_to_install(core: Path, tmp_path: Path) -> None:
    lines = ["import lim2"]
    for code in NEEDS:
        lines += ["try:", f"    {code}", "except ModuleNotFoundError as e:", "    print(type(e).__name__, e)"]
        lines += ["else:", "    print('nothing')"]
    done = python(core, "-c", "\n".join(lines), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for said, expected in zip(done.stdout.splitlines(), NEEDS.values(), strict=True):
        assert re.match(f"MissingExtraError {expected}", said), said
        assert "pip install 'lim2[" in said


def test_everything_else_works_without_extras(core: Path, tmp_path: Path) -> None:
    code = """
import lim2, sys, warnings
bandit = lim2.Bandit(arms=["a", "b"], log="d.db", seed=0, epsilon=0.2)
for t in range(20):
    bandit.update(bandit.decide({"t": t, "country": "AT"}), float(t % 2))
bandit.save("b.lim2")
warnings.simplefilter("ignore")
print(lim2.load("b.lim2").rounds, bandit.evaluate().n)
lim2.NeuralUCB(2, 3).update([0.1, 0.2, 0.3], 0, 1.0)
print(lim2.problems.load("wheel", rounds=10, seed=0).rounds, len(lim2.AGENTS))
lim2.Client
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"polars", "rich", "pandas"}))
"""
    done = python(core, "-W", "error", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:3] == ["20", "20", "10"]
    assert done.stdout.splitlines()[-1] == ""


PROGRAM = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from lim2.__main__ import main
for words in json.loads(sys.argv[1]):
    out, err, code, sys.argv = io.StringIO(), io.StringIO(), 0, ["lim2", *words]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    print(json.dumps([code or 0, out.getvalue(), err.getvalue()]))
"""


def program(site: Path, calls: list[list[str]], cwd: Path) -> list[tuple[int, str, str]]:
    """Return status, output and errors of calls of the program, all made in one process to be quick."""
    done = python(site, "-c", PROGRAM, json.dumps(calls), cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_the_program_without_its_extra(core: Path, tmp_path: Path) -> None:
    calls = {
        (): ("the command lim2", "cli"),
        ("--help",): ("the command lim2", "cli"),
        ("log", "state", "x"): ("lim2 log", "cli"),
        ("serve",): ("lim2 serve", "serve"),
        ("bench", "--rounds", "3"): ("lim2 bench", "bench"),
    }
    ends = program(core, [*map(list, calls), ["--version"]], tmp_path)
    for end, (what, extra) in zip(ends, calls.values(), strict=False):
        assert end == (2, "", f"error: {what} needs typer, which is not installed: pip install 'lim2[{extra}]'\n")
    assert (ends[-1][0], ends[-1][2]) == (0, "")
    assert ends[-1][1].startswith(f"lim2 {lim2.__version__} (kernels: ")


def test_commands_whose_extra_is_missing(cli: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").touch()
    lim2.LinearTS(n_arms=2, n_features=2, seed=0).save(tmp_path / "a.lim2")
    columns = ["--propensity", "p", "--arm-column", "a", "--reward-column", "r", "--context", "x"]
    calls = {
        ("bench", "--rounds", "5"): r"lim2 bench needs \w+, which is not installed: pip install 'lim2\[bench\]'",
        ("paper", "all", "--quick"): r"lim2 paper needs \w+, which is not installed: pip install 'lim2\[bench\]'",
        ("compare", "--help"): r"lim2 compare needs \w+, which is not installed: pip install 'lim2\[bench\]'",
        ("serve",): r"lim2 serve needs \w+, which is not installed: pip install 'lim2\[serve\]'",
        ("data", "check"): r".* needs \w+, which is not installed: pip install 'lim2\[data\]'",
        ("evaluate", "x.csv", "uniform", *columns): r"reading CSV and .* needs polars, .* 'lim2\[data\]'",
    }
    ends = program(cli, [*map(list, calls), ["--help"], ["inspect", "a.lim2"]], tmp_path)
    for (code, out, err), message in zip(ends, calls.values(), strict=False):
        assert (code, out) == (2, ""), out + err
        assert re.fullmatch(f"error: {message}\n", err), err
    assert "Not installed: needs the extra 'bench'." in ends[-2][1]
    assert (ends[-1][0], "LinearTS" in ends[-1][1]) == (0, True), ends[-1]
