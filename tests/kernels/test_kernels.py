"""The compiled kernels: they compute what NumPy does, refuse what does not fit, and leave their arguments alone."""

import copy
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from kernels.cases import CASES, Arguments, call, spoiled

import lim2
from lim2 import _kernels
from lim2._kernels import reference
from lim2.moments import Scaling, scaled
from lim2.representation import MLP, RMSProp
from lim2.representation.mlp import Network
from lim2.representation.optimizers import Descent, begin

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


def kernel_of(build: str, name: str) -> Callable[..., Any]:
    if build not in BUILT:
        pytest.skip(f"there is no extension {build} here")
    return lambda *arguments: call(BUILT[build], name, list(arguments))


def expected_of(name: str, arguments: Arguments) -> Any:
    """Return what NumPy computes: the reference, or what networks and views of any kind do."""
    if name == "features":
        parameters, units, center, factor, limit, contexts = arguments
        net, inputs = MLP((max(units, 1),)), contexts.shape[1]
        whole = np.append(parameters, np.zeros(units + 2))[: inputs * units + 2 * units + 1]
        rows = scaled(Scaling(center, 1.0 / factor, factor, limit), contexts)
        hidden = net.features(Network(whole, begin(RMSProp(), 0), inputs, 1), rows) if units else rows[:, :0]
        return np.hstack((hidden, rows, np.ones((len(rows), 1))))
    if name == "train":
        parameters, mean_square, units, n_arms, contexts, arms, rewards, rate, clip, keep, epsilon = arguments
        net = MLP((units,), RMSProp(rate, 0.0, clip if clip < np.inf else None, keep, 1.0, epsilon))
        f = Network(parameters, Descent(mean_square), contexts.shape[1], n_arms)
        _, new, step = net.train(f, contexts, arms, rewards)
        return new.parameters, new.descent.statistics, step.gradient_norm, step.loss
    return getattr(reference, name)(*copy.deepcopy(arguments))


def arrays_of(result: Any) -> list[Any]:
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


@each_build
@each_kernel
def test_a_kernel_computes_what_numpy_does(build: str, kernel: str) -> None:
    compiled = kernel_of(build, kernel)
    for seed in range(80):
        arguments = CASES[kernel](np.random.default_rng(seed))
        expected, found = arrays_of(expected_of(kernel, arguments)), arrays_of(compiled(*arguments))
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
        for array, same in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(array, same)


@each_build
@each_kernel
def test_any_order_and_kind_of_an_array_will_do(build: str, kernel: str) -> None:
    compiled = kernel_of(build, kernel)
    arguments = CASES[kernel](np.random.default_rng(5))
    expected = arrays_of(compiled(*arguments))
    for i, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
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
        with pytest.raises(TypeError, match=f"{kernel} takes {len(arguments)} arguments, got {len(wrong)}"):
            compiled(*wrong)


def full(value: int) -> Callable[[Any], Any]:
    return lambda array: np.full_like(array, value)


def more(array: Any) -> Any:
    return np.append(array, array)


def instead(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


WRONG: dict[str, list[tuple[int, Callable[[Any], Any], str]]] = {  # kernel -> place and change of an argument, message
    "descend": [(5, full(-1), "no block"), (5, full(9), "no block"), (1, more, "bias"), (6, more, "a reward for each")],
    "draw": [(2, more, "must have one size"), (3, more, "must have one size")],
    "features": [(1, instead(10**18), "not enough"), (1, instead(-1), "not enough"), (2, more, "for each column")],
    "predicted": [(2, instead(-1), "no such arm"), (2, instead(9), "no such arm"), (3, more, "do not fit")],
    "sample": [
        (0, full(1), r"not in \[0, 1\)"), (0, lambda u: u * np.nan, r"not in \[0, 1\)"), (1, instead(0), "each batch"),
        (2, instead(99), "held must be"), (3, instead(np.full(99, 98)), "or its row"), (4, full(9), "or arm does not"),
    ],
    "score": [(2, more, "do not fit"), (4, more, "do not fit")],
    "train": [
        (2, instead(10**18), "does not fit"), (3, instead(-1), "does not fit"), (1, lambda m: m[:, 1:], "one row"),
        (5, full(9), "an arm of the network"), (6, more, "a reward for each context"),
    ],
}  # fmt: skip


@each_build
@each_kernel
def test_wrong_sizes_and_indices_are_refused(build: str, kernel: str) -> None:
    compiled = kernel_of(build, kernel)
    for place, change, message in WRONG[kernel]:
        arguments = CASES[kernel](np.random.default_rng(8))
        arguments[place] = change(arguments[place])
        with pytest.raises(ValueError, match=message):
            compiled(*arguments)


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
        [sys.executable, "-W", "ignore", script, str(target), "1500"], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr[-3000:]


def test_the_sources_stay_short_enough_to_read() -> None:
    lines = [line for path in SOURCES.glob("*.[ch]") for line in path.read_text().splitlines() if line]
    assert len(lines) <= 800
    assert max(map(len, lines)) <= 120
