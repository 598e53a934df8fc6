"""Wheel and source distribution: what they hold, and that what was built works. `make release-check` does the rest."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from test_container import tool
from test_extras import CORE, link

import lim2

ROOT = Path(__file__).parent.parent
pytest.importorskip("hatchling")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution of this tree."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def test_the_wheel_says_what_it_is_and_needs(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        names = wheel.namelist()
        folder = f"lim2-{lim2.__version__}.dist-info"
        metadata = email.message_from_bytes(wheel.read(f"{folder}/METADATA"))
        assert "lim2 = lim2.__main__:main" in wheel.read(f"{folder}/entry_points.txt").decode()
    assert {name.split("/")[0] for name in names} == {"lim2", folder}
    assert {"lim2/py.typed", "lim2/serve/page/index.html", f"{folder}/licenses/LICENSE"} <= set(names)
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(re.split(r"[<>=]", line)[0] for line in required) == sorted(CORE)
    assert metadata["Version"] == lim2.__version__
    assert {line.split(",")[0] for line in metadata.get_all("Project-URL", [])} >= {"Source", "Issues", "Changelog"}
    assert metadata["License-Expression"] == "MIT"


def test_the_source_distribution_holds_all_but_the_kept_results(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert not any(name.startswith("docs/results") for name in held)
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("what belongs to the source is known from git, which is not here")
    listed = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    assert {name for name in tracked if not name.startswith("docs/results/")} <= held
    assert not {name for name in held if name.startswith((".venv", "dist", "node_modules", "results"))}


def test_what_is_in_the_wheel_works(built: tuple[Path, Path], tmp_path: Path) -> None:
    """README's first block and a saved agent, without anything but the wheel, NumPy, SciPy and threadpoolctl."""
    site = tmp_path / "site"
    site.mkdir()
    link(site, *CORE)
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(site)
    block = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[0]
    saved = ROOT / "tests" / "data" / "agents-v2" / "adaptive-ts.lim2"
    code = f"""
print("README")
{block}
agent = lim2.load({str(saved)!r})
print("loaded", agent.rounds > 0, lim2.__file__)
from importlib.metadata import version
print("version", version("lim2"))
"""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site)}
    command = [sys.executable, "-S", "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) > 3  # the block has printed something
    assert lines[-2] == f"loaded True {site / 'lim2' / '__init__.py'}"
    assert lines[-1] == f"version {lim2.__version__}"


def wheel_of(folder: Path, **settings: str) -> tuple[Path, str]:
    """Return a wheel of this tree, built with more environment variables, and what was said."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **settings})
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl")), done.stdout + done.stderr


def test_kernels_are_compiled_where_there_is_a_compiler(built: tuple[Path, Path]) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("there is no compiler")
    assert "-cp311-abi3-" in built[0].name
    with zipfile.ZipFile(built[0]) as wheel:
        names = {name.removeprefix("lim2/_kernels/") for name in wheel.namelist() if name.startswith("lim2/_kernels/")}
    compiled = {name.partition(".")[0] for name in names if name.endswith((".so", ".pyd"))}
    assert {"baseline"} <= compiled <= {"baseline", "avx2"}
    assert not any(name.endswith((".c", ".h")) for name in names)


def test_without_a_compiler_the_wheel_is_pure_and_its_agents_decide(tmp_path: Path) -> None:
    wheel, output = wheel_of(tmp_path, CC="no-compiler", CXX="no-compiler")
    assert "without compiled kernels, and will use NumPy" in output
    assert wheel.name.endswith("-py3-none-any.whl")
    site = tmp_path / "site"
    site.mkdir()
    link(site, *CORE)
    with zipfile.ZipFile(wheel) as archive:
        assert not any(name.endswith((".so", ".pyd")) for name in archive.namelist())
        archive.extractall(site)
    code = """
import lim2, lim2._kernels
for agent in (lim2.NeuralUCB(2, 3, hidden=4), lim2.AdaptiveTS(2, 3)):
    agent.update([0.0, 0.5, 1.0], agent.act([0.0, 0.5, 1.0]), 1.0)
print(lim2._kernels.DESCRIPTION)
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(site)}
    )
    assert done.stdout == "NumPy; the extension is missing\n", done.stderr


def test_workflows_pin_actions_by_commit() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for used in re.findall(r"uses: *(\S+)", path.read_text()):
            assert re.search(r"@[0-9a-f]{40}$", used), f"{path.name}: {used}"


def test_a_compiler_that_is_asked_for_must_work(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    environment = {**os.environ, "CC": "no-compiler", "CXX": "no-compiler", "LIM2_BUILD": "native"}
    assert subprocess.run(command, cwd=ROOT, capture_output=True, env=environment).returncode != 0
    assert not list(tmp_path.glob("*.whl"))


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    heading = re.search(r"^## (\S+) - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert heading is not None
    assert heading[1] == lim2.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert f'version: "{lim2.__version__}"\ndate-released: "{heading[2]}"' in citation
    supported = (ROOT / "SECURITY.md").read_text()
    assert f"| {'.'.join(lim2.__version__.split('.')[:2])}.x | yes |" in supported


def test_workflows_issue_forms_and_the_citation_follow_their_schemas() -> None:
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert {"test.yml", "release.yml"} <= {path.name for path in workflows}
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    checks = {
        "vendor.github-workflows": workflows,
        "vendor.github-issue-forms": [path for path in forms if path.stem != "config"],
        "vendor.github-issue-config": [path for path in forms if path.stem == "config"],
        "vendor.citation-file-format": [ROOT / "CITATION.cff"],
    }
    for schema, files in checks.items():
        command = [tool("check-jsonschema"), "--builtin-schema", schema, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_pythons_are_the_same_everywhere() -> None:
    yaml = pytest.importorskip("yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert project["requires-python"] == f">={named[0]}"
    assert f"| Python | {', '.join(named)}. " in (ROOT / "docs" / "reference" / "releases.md").read_text()
    for name, job in (("test.yml", "test"), ("test.yml", "release-check"), ("release.yml", "check")):
        jobs = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())["jobs"]
        assert jobs[job]["strategy"]["matrix"]["python"] == named
