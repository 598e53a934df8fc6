"""Files of agents: what can be saved, what is refused, and that old ones keep loading."""

import inspect
import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import saved_agents as saved

import lim2
from lim2.agents.container import FORMAT, pack, unpack
from lim2.agents.saving import _TYPES, _decoded, _encoded, dump, parse
from lim2.exploration import UCB, Thompson
from lim2.representation import MLP, SGD, Adam, RMSProp

DATA = Path(__file__).parents[1] / "data"
SAMPLES = sorted(DATA.glob("agents-v*/*.lim2"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_files_of_every_format_load(path: Path) -> None:
    told = json.loads(path.with_suffix(".json").read_text())
    found = saved.expected(lim2.load(path))
    # Sums of other BLAS libraries differ in the last bits, and 24 rounds of training amplify that.
    np.testing.assert_allclose(found.pop("before"), told.pop("before"), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.pop("after"), told.pop("after"), rtol=1e-6, atol=1e-9)
    assert found == told


def test_there_is_a_small_sample_of_every_agent_in_every_format() -> None:
    for version in range(1, FORMAT + 1):
        folder = DATA / f"agents-v{version}"
        agents = {unpack(path.read_bytes())[0]["agent"] for path in folder.glob("*.lim2")}
        assert agents == {kind for kind, _ in saved.SAMPLES.values()} <= set(lim2.AGENTS)
        assert all(path.stat().st_size < 10_000 for path in folder.iterdir())


def small(**settings: Any) -> lim2.LiM2:
    agent = lim2.LiM2(3, 2, seed=0, **{"hidden": (4,), "batch": 6, "buffer": 10, **settings})
    agent.update_many(np.random.default_rng(0).normal(size=(14, 2)), [0, 1, 2, 0, 1, 2, 0] * 2, [1.0] * 14)
    return agent


def test_another_process_goes_on_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "agent.lim2"
    agent = small()
    agent.save(path)
    code = """
import sys, numpy as np, lim2
from lim2.agents.saving import dump
agent = lim2.load(sys.argv[1])
for context in np.random.default_rng(1).normal(size=(30, 2)):
    arm = agent.act(context)
    agent.update(context, arm, float(context[arm % 2]))
sys.stdout.buffer.write(dump(agent))
assert "torch" not in sys.modules
"""
    other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=True).stdout
    for context in np.random.default_rng(1).normal(size=(30, 2)):
        arm = agent.act(context)
        agent.update(context, arm, float(context[arm % 2]))
    assert other == dump(agent)


def test_what_is_shared_is_shared_again() -> None:
    loaded: Any = parse(dump(small()))
    assert loaded.prior.covs is loaded.posterior.cov
    assert loaded.prior._posterior is loaded.posterior


@pytest.mark.parametrize(
    "settings",
    [
        {"exploration": UCB(optimism=2.5)},
        {"exploration": Thompson()},
        {"representation": MLP((4, 3), SGD(0.1, decay=0.2, clip=None), init=0.1)},
        {"representation": MLP(5, Adam(0.01, keep=(0.8, 0.99)))},
        {"representation": MLP((5,), RMSProp(keep=0.5, start=0.0, epsilon=1e-3))},
        {"hidden": np.array([4]), "buffer": np.int64(12), "a0": np.float32(5.0)},
        {"hidden": [4, 3]},
        {"matching_clip": 1e300, "seed": [1, 2, 3]},
        {"seed": 2**200},
        {"seed": range(3), "hidden": range(4, 6)},
        {"hidden": b"\x04"},
    ],
    ids=str,
)
def test_settings_come_back(settings: dict[str, Any]) -> None:
    agent = lim2.LiM2(3, 2, **settings)
    loaded = parse(dump(agent))
    assert dump(loaded) == dump(agent)
    assert repr(loaded.exploration) == repr(agent.exploration)  # type: ignore[attr-defined]
    assert repr(loaded.representation) == repr(agent.representation)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", _TYPES.values())
def test_objects_have_their_arguments_as_attributes(kind: Any) -> None:
    assert repr(_decoded(json.loads(json.dumps(_encoded(kind(), "it"))))) == repr(kind())


@pytest.mark.parametrize(
    "name", ["a", "1", 1, True, 1.0, None, -0.5, (), ("a", 1, (None, True)), float("inf"), "ä\n\x00😀", 2**80], ids=repr
)
def test_names_come_back_with_their_types(name: Any) -> None:
    back = _decoded(json.loads(json.dumps(_encoded(name, "an arm's name"))))
    assert back == name
    assert type(back) is type(name)
    assert repr(back) == repr(name)


class Mine:
    """An exploration that no file can describe."""

    def scores(self, posterior: Any, features: Any, rng: Any) -> Any:
        return posterior.moments(features)[0]


class Own(lim2.LinearTS):
    """An agent of the user's."""


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: lim2.LinearTS(2, 2, exploration=Mine()), "exploration of type Mine"),
        (lambda: Own(2, 2), "Own cannot be saved"),
        (lambda: lim2.LiM2(2, 2, hidden={4}), "hidden cannot be saved"),  # type: ignore[arg-type]
        (lambda: _with_metadata({"t": (1, 2)}), "metadata"),
        (lambda: _with_metadata({1: 2}), "metadata"),
        (lambda: _with_metadata({"x": float("nan")}), "metadata"),
        (lambda: _with_metadata({"x": object()}), "metadata"),
        (lambda: _with_metadata([1]), "metadata"),
        (lambda: _with_arms((0, frozenset((1,)))), "name"),
        (lambda: _with_arms((0, object())), "name"),
    ],
)
def test_what_cannot_be_saved_is_told_before_anything_is_written(make: Any, told: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.lim2"
    path.write_bytes(b"before")
    with pytest.raises(ValueError, match=told):
        make().save(path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]


def _with_metadata(metadata: Any) -> lim2.Agent:
    agent = lim2.LinearTS(2, 2)
    agent.metadata = metadata
    return agent


def _with_arms(arms: Any) -> lim2.Agent:
    if "arms" in inspect.signature(lim2.Uniform).parameters:
        return lim2.Uniform(n_features=2, arms=arms)  # type: ignore[call-arg,unused-ignore]
    agent = lim2.Uniform(2, 2)
    agent.__dict__["arms"] = arms
    return agent


def test_a_representation_of_ones_own_is_given_again() -> None:
    class Mirror(MLP):
        pass

    agent = small(representation=Mirror((4,)))
    content = dump(agent)
    with pytest.raises(lim2.LoadError, match=r"representation=\.\.\."):
        parse(content)
    with pytest.raises(lim2.LoadError, match="which MLP"):
        parse(content, MLP((4,)))
    with pytest.raises(lim2.LoadError, match="shape"):
        parse(content, Mirror((5,)))
    assert dump(parse(content, Mirror((4,)))) == content
    with pytest.raises(lim2.LoadError, match="without one"):
        parse(dump(small()), MLP((4,)))
    with pytest.raises(lim2.LoadError, match="no representation"):
        parse(dump(lim2.LinearTS(2, 2)), MLP((4,)))


def test_writing_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "agent.lim2"
    agent = small()
    agent.save(path)
    before = path.read_bytes()
    synced: list[Path] = []
    agent.update([0.0, 1.0], 0, 1.0)
    real = os.fsync

    def spy(fd: int) -> None:
        if sys.platform == "linux":
            synced.append(Path(f"/proc/self/fd/{fd}").readlink())
        real(fd)

    monkeypatch.setattr(os, "fsync", spy)
    agent.save(path)
    assert path.read_bytes() != before
    if sys.platform == "linux":
        part, folder = synced
        assert part.parent == folder == tmp_path

    def fail(fd: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    before = path.read_bytes()
    agent.update([0.0, 1.0], 0, 1.0)
    with pytest.raises(OSError, match="disk full"):
        agent.save(path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [before]


def test_saving_keeps_a_link_and_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "agent.lim2"
    link.symlink_to(tmp_path / "there" / "real.lim2")
    old, young, other = (
        tmp_path / "there" / name for name in (".real.lim2.1-a.part", ".real.lim2.2-b.part", ".x.part")
    )
    for file in (old, young, other):
        file.touch()
    os.utime(old, (time.time() - 7200,) * 2)
    small().save(link)
    assert link.is_symlink()
    assert lim2.load(link).rounds == 14
    assert {file.name for file in (tmp_path / "there").iterdir()} == {"real.lim2", young.name, other.name}


def test_what_is_wrong_with_a_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "agent.lim2"
    content = dump(small())

    def refused(data: bytes) -> str:
        path.write_bytes(data)
        with pytest.raises(lim2.LoadError) as caught:
            lim2.load(path)
        assert str(path) in str(caught.value)
        return str(caught.value)

    assert "truncated" in refused(b"")
    assert "truncated" in refused(content[:6])
    assert "truncated or altered" in refused(content[:-1])
    assert "truncated or altered" in refused(content + b"\0")
    assert "not a saved agent" in refused(b"PK\x03\x04" + content)
    assert "newer lim2" in refused(content[:8] + struct.pack("<I", FORMAT + 1) + content[12:])
    header, arrays = unpack(content)
    assert "newer version" in refused(pack({**header, "agent": "LiM3"}, arrays))
    assert "no agent can be made" in refused(pack({**header, "settings": {**header["settings"], "new": 1}}, arrays))
    assert "missing" in refused(pack(header, {k: v for k, v in arrays.items() if k != "posterior/mu"}))
    assert "not known here" in refused(pack(header, {**arrays, "posterior/more": np.zeros(1)}))
    assert "shape" in refused(pack(header, {**arrays, "posterior/mu": np.zeros((3, 5))}))
    assert "float32" in refused(pack(header, {**arrays, "posterior/mu": np.zeros((3, 4), np.float32)}))
    assert "arms" in refused(pack(header, {**arrays, "memory/arms": arrays["memory/arms"] + 7}))
    with pytest.raises(FileNotFoundError):
        lim2.load(tmp_path / "missing.lim2")


@pytest.mark.parametrize(
    "sizes",
    [
        {"n_features": 10**9},
        {"hidden": 10**9},
        {"hidden": 10**5},
        {"n_features": 10**15, "hidden": 10**15},
        {"n_features": 500, "hidden": 1, "skip": True},
    ],
    ids=str,
)
def test_sizes_that_the_file_does_not_hold_are_not_allocated(sizes: dict[str, int]) -> None:
    for agent in (small(), lim2.LinearTS(2, 2), lim2.NeuralUCB(2, 2, hidden=3), lim2.TransportTS(2, 2, hidden=3)):
        header, arrays = unpack(dump(agent))
        known = {k: v for k, v in sizes.items() if k in header["settings"]}
        if known:
            with pytest.raises(lim2.LoadError, match="numbers"):
                parse(pack({**header, "settings": {**header["settings"], **known}}, arrays))
    entry = pack(header, {**arrays, "network/parameters": np.zeros((0, 3))})
    with pytest.raises(lim2.LoadError):
        parse(entry.replace(b"[0,3]", b"[0,9]"))


def test_equal_agents_give_equal_files_whatever_the_order_of_memory() -> None:
    agent = small()
    agent.posterior.mu = np.asfortranarray(agent.posterior.mu)
    assert dump(agent) == dump(small())
