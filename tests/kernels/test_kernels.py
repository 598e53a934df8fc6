"""The compiled kernels: they compute what NumPy does, refuse what does not fit, and leave their arguments alone."""

import subprocess
import sys
import sysconfig
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from kernels.cases import CASES, spoiled

import lim2
from lim2 import _kernels
from lim2._kernels import reference

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "lim2" / "_kernels"


def built() -> dict[str, ModuleType]:
    """Return the extensions that this processor runs, by name; none where nothing is compiled."""
    if "compiled" not in _kernels.DESCRIPTION:
        return {}
    baseline = import_module("lim2._kernels.baseline")
    return {"baseline": baseline} | ({"avx2": import_module("lim2._kernels.avx2")} if baseline.has_avx2() else {})


BUILT = built()
needs_extension = pytest.mark.skipif(not BUILT, reason="nothing is compiled: make install")
each_kernel = pytest.mark.parametrize("kernel", CASES)
each_build = pytest.mark.parametrize("build", ["baseline", "avx2"])


def kernel_of(build: str, name: str) -> Any:
    if build not in BUILT:
        pytest.skip(f"there is no extension {build} here")
    return getattr(BUILT[build], name)


def arrays_of(result: Any) -> list[Any]:
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


@each_build
@each_kernel
def test_a_kernel_computes_what_numpy_does(build: str, kernel: str) -> None:
    compiled, plain = kernel_of(build, kernel), getattr(reference, kernel)
    for seed in range(150):
        arguments = CASES[kernel](np.random.default_rng(seed))
        expected, found = arrays_of(plain(*arguments)), arrays_of(compiled(*arguments))
        for one, other in zip(found, expected, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(other).max(initial=0.0)))


@each_build
@each_kernel
def test_arguments_are_neither_written_nor_kept(build: str, kernel: str) -> None:
    compiled = kernel_of(build, kernel)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        arguments = CASES[kernel](rng) if seed % 2 else spoiled(CASES[kernel](rng), rng)
        arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
        before = [array.copy() for array in arrays]
        for array in arrays:
            array.flags.writeable = False
        held = [sys.getrefcount(array) for array in arrays]
        try:
            results = arrays_of(compiled(*arguments))
        except (ValueError, TypeError):
            results = []
        assert not any(np.shares_memory(result, array) for result in results for array in arrays)
        del results
        assert [sys.getrefcount(array) for array in arrays] == held
        for array, copy in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(array, copy)


@each_build
@each_kernel
def test_any_order_and_kind_of_an_array_will_do(build: str, kernel: str) -> None:
    compiled = kernel_of(build, kernel)
    arguments = CASES[kernel](np.random.default_rng(5))
    expected = arrays_of(compiled(*arguments))
    for i, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray) and argument.ndim:
            for same in (np.asfortranarray(argument), np.repeat(argument, 2, axis=0)[::2], argument.tolist()):
                found = arrays_of(compiled(*arguments[:i], same, *arguments[i + 1 :]))
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, other)


@each_build
@each_kernel
def test_a_wrong_number_of_arguments_is_refused(build: str, kernel: str) -> None:
    compiled = kernel_of(build, kernel)
    arguments = CASES[kernel](np.random.default_rng(0))
    for wrong in ([], arguments[:-1], [*arguments, 1]):
        with pytest.raises(TypeError, match=rf"{kernel} takes {len(arguments)} arguments, got {len(wrong)}"):
            compiled(*wrong)


@each_build
def test_arms_without_weights_are_refused(build: str) -> None:
    compiled = kernel_of(build, "descend")
    arguments = CASES["descend"](np.random.default_rng(1))
    for arm in (-1, len(arguments[0])):
        with pytest.raises(ValueError, match="an arm has no block"):
            compiled(
                *arguments[:4], np.zeros((1, arguments[0].shape[1])), np.array([arm]), np.zeros(1), 1, 0.1, 1.0, 0.0
            )


# The choice


def said(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": "", **environment})


VERSION = "import sys; sys.argv = ['lim2', '--version']; import lim2.__main__ as m; m.main()"


@pytest.mark.parametrize("choice", ["numpy", "baseline", "avx2"])
def test_the_variable_chooses_and_the_version_says_so(choice: str) -> None:
    if choice != "numpy" and choice not in BUILT:
        pytest.skip("nothing is compiled for this")
    done = said(VERSION, LIM2_KERNELS=choice)
    expected = {"numpy": "NumPy, as LIM2_KERNELS says"}.get(choice, _kernels.CHOICES[choice])
    assert done.stdout == f"lim2 {lim2.__version__} (kernels: {expected})\n", done.stderr


def test_an_unknown_choice_is_an_error() -> None:
    assert "LIM2_KERNELS must be one of avx2, baseline, numpy, got 'fast'" in said(VERSION, LIM2_KERNELS="fast").stderr


STAND_IN = "import sys, types; sys.modules['lim2._kernels.baseline'] = {}; {}"


def test_without_an_extension_or_with_an_old_one_numpy_is_used() -> None:
    absent, old = "None", "types.SimpleNamespace(INTERFACE=-1)"
    assert "(kernels: NumPy; the extension is missing)" in said(STAND_IN.format(absent, VERSION)).stdout
    assert "(kernels: NumPy; compiled from other sources, install" in said(STAND_IN.format(old, VERSION)).stdout
    refused = said(STAND_IN.format(old, VERSION), LIM2_KERNELS="baseline")
    assert "ImportError: LIM2_KERNELS is baseline, but these kernels cannot be used" in refused.stderr


PLAY = """
import lim2, numpy as np
rng = np.random.default_rng(0)
contexts = rng.normal(size=(200, 6))
small = dict(n_arms=3, n_features=6, hidden=20, seed=0)
for agent in (lim2.NeuralUCB(**small, iterations=40), lim2.NeuralTS(**small, iterations=40), lim2.AdaptiveTS(**small),
              lim2.LiM2(**small)):
    arms = []
    for context in contexts:
        arms.append(agent.act(context))
        agent.update(context, arms[-1], float(arms[-1] == np.argmax(context[:3] * context[3:])))
    print(*arms)
"""


@needs_extension
def test_agents_decide_the_same_with_all_kernels() -> None:
    plays = {name: said(PLAY, LIM2_KERNELS=name, OPENBLAS_NUM_THREADS="1").stdout for name in ("numpy", *BUILT)}
    assert plays["numpy"].count("\n") == 4
    assert set(plays.values()) == {plays["numpy"]}


# Memory


@needs_extension
def test_the_sanitizers_find_nothing(tmp_path: Path) -> None:
    """A fuzz of shapes, orders, kinds and special numbers, under those for addresses and undefined behaviour."""
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("gcc has no sanitizers here")
    target = tmp_path / "checked.abi3.so"
    include, random = Path(np.get_include()), Path(np.get_include()).parents[1] / "random" / "lib"
    flags = ["-std=c11", "-O1", "-g", "-shared", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = ["gcc", *flags, "-DMODULE=checked", f"-I{sysconfig.get_path('include')}", f"-I{include}"]
    command += [str(SOURCES / "extension.c"), "-o", str(target), f"-L{random}", "-lnpyrandom", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    script = str(Path(__file__).with_name("cases.py"))
    environment = {"PATH": "", "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, str(target), "3000"], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr[-3000:]


def test_the_sources_stay_short_enough_to_read() -> None:
    lines = [line for path in SOURCES.glob("*.[ch]") for line in path.read_text().splitlines()]
    assert len(lines) <= 800
    assert max(map(len, lines)) <= 120
