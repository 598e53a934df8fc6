"""Bandits in files: bit for bit, and what was altered is refused or works."""

import os
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bandit.shop import FORMS, content, make, play, played, question
from persistence.alterations import FLOATS, WHOLE, WORDS, Parts, at, parts_of, pick, places, sealed

import lim2
from lim2.encoding import Category, Columns, Embedding, Encoder, Number, Tags, Time
from lim2.persistence.container import pack, unpack

every_form = pytest.mark.parametrize("form", FORMS)
CASES = 4000 if os.environ.get("LIM2_FUZZ") else 250
SMALL: dict[str, Any] = {"encoder": Encoder(numbers=10, buckets=4)}


def loaded(content: bytes) -> lim2.Bandit:
    bandit: lim2.Bandit = lim2.from_bytes(content)
    return bandit


@every_form
@pytest.mark.parametrize("algorithm", ["AdaptiveTS", "LinearTS", "LiM2", "Uniform"])
def test_a_saved_bandit_goes_on_bit_for_bit(form: str, algorithm: str, tmp_path: Path) -> None:
    bandit = played(form, 9, algorithm=algorithm)
    bandit.metadata["note"] = ["mine"]
    bandit.save(tmp_path / "bandit.lim2")
    other = lim2.load(tmp_path / "bandit.lim2")
    assert (tmp_path / "bandit.lim2").read_bytes() == content(bandit)
    assert isinstance(other, lim2.Bandit)
    assert content(other) == content(bandit)
    assert play(other, form, 6, start=30) == play(bandit, form, 6, start=30)
    assert content(other) == content(bandit)
    assert (repr(other), other.columns, other.arms) == (repr(bandit), bandit.columns, bandit.arms)


def test_loading_with_a_seed_changes_decisions_only(tmp_path: Path) -> None:
    bandit = played("items", epsilon=1.0)
    bandit.save(tmp_path / "bandit.lim2")
    one, two, three = (lim2.load(tmp_path / "bandit.lim2", seed=seed) for seed in (5, 5, 6))
    first = [one.decide(**question("items")).arm for _ in range(20)]
    assert first == [two.decide(**question("items")).arm for _ in range(20)]
    assert first != [three.decide(**question("items")).arm for _ in range(20)]


def test_every_kind_of_column_is_saved(tmp_path: Path) -> None:
    declared = Columns(age=Number(), country=Category(["AT", "DE"]), tags=Tags(["a"]), at=Time(), v=Embedding(2))
    bandit = lim2.Bandit(["x", "y"], encoder=declared, algorithm="LinearTS", seed=0)
    context = {"age": 3, "country": "AT", "tags": ["a"], "at": "2026-11-16", "v": [0.5, 1.0]}
    for _ in range(3):
        bandit.update(bandit.decide(context), 1.0)
    bandit.save(tmp_path / "bandit.lim2")
    other = lim2.load(tmp_path / "bandit.lim2")
    assert content(other) == content(bandit)
    assert other.decide(context).arm == bandit.decide(context).arm


def test_a_file_from_before_a_setting_came_has_its_default() -> None:
    header, arrays = unpack(content(played("items", 3, encoder=Encoder(times=False))))
    for encoder in header["bandit"]["encoders"]:
        del encoder["settings"]["times"]
    other = loaded(pack(header, arrays))
    assert [encoder.times for encoder in other.rows.encoders] == [True, True]  # type: ignore[union-attr]
    saved = loaded(content(played("items", 3, encoder=Encoder(times=False))))
    assert [encoder.times for encoder in saved.rows.encoders] == [False, True]  # type: ignore[union-attr]


def test_names_of_every_kind() -> None:
    names: Any
    for names in (["a", 1, 2.5, ("a", 1), False], {"a": {"x": 1}, 1: {"x": 2}, ("b", 2): {"x": 3}}):
        bandit = lim2.Bandit(names, algorithm="LinearTS", seed=0)
        bandit.update(bandit.decide({"z": 1}), 1.0)
        assert loaded(content(bandit)).arms == bandit.arms == tuple(names)


# Altered files


def altered(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """Change the header or the arrays of a bandit's file: of the encoders, or the file of the agent as a whole."""
    header: Any = {"header": parts.header}
    kind = pick(rng, ("word", "word", "gone", "twin", "value", "value", "shape", "type", "name", "drop", "inner"))
    if kind in ("word", "gone", "twin"):
        place = pick(rng, [place for place in places(header) if len(place) > 1])
        holder = at(header, place[:-1])
        if kind == "gone":
            del holder[place[-1]]
        elif kind == "word":
            holder[place[-1]] = pick(rng, WORDS)
        else:
            old = holder[place[-1]]
            number = isinstance(old, int | float) and not isinstance(old, bool)
            holder[place[-1]] = pick(rng, (old + 1, -old, 2 * old, float(old)) if number else ([old], str(old)))
        what = f"{kind} {place}"
    else:
        index = int(rng.integers(len(parts.arrays)))
        name, array = parts.arrays[index]
        what = f"{kind} {name}"
        if kind == "value" and array.size:
            array[int(rng.integers(len(array)))] = pick(rng, FLOATS if array.dtype.kind == "f" else (0, 1, 7))
            if array.dtype == np.int64:
                array[0] = pick(rng, WHOLE)
        elif kind == "shape":
            parts.arrays[index] = name, pick(rng, (array[:-1], array[:0], array[None], np.append(array, array[:1])))
        elif kind == "type":
            with np.errstate(all="ignore"):
                parts.arrays[index] = name, array.astype(pick(rng, ("<f8", "<i8", "<f4", "|u1")))
        elif kind == "name":
            parts.arrays[index] = pick(rng, ("x", "2/count", "0/x", "1/mean", "agent/x", "", "0")), array
        elif kind == "inner":
            inner = np.frombuffer(content(played("items", 2, seed=1, **SMALL)), dtype=np.uint8).copy()
            parts.arrays[index] = name, inner
        else:
            del parts.arrays[index]
    return what, sealed(parts)


def works(bandit: Any, form: str) -> None:
    """Let a bandit that was loaded go on."""
    assert isinstance(bandit, lim2.Bandit)
    decision = bandit.decide(**question(form), exploit=True)
    assert np.isfinite(decision.means).all()
    bandit.update(decision, 1.0)
    bandit.columns  # noqa: B018
    loaded(content(bandit))


@every_form
def test_altered_files_are_refused_or_work(form: str) -> None:
    start, failed, played_on = played(form, 5, **SMALL), [], 0
    for case in range(CASES):
        rng = np.random.default_rng([case, zlib.crc32(form.encode())])
        what, changed = altered(fresh(parts_of(content(start))), rng)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                works(loaded(changed), form)
                played_on += 1
            except lim2.LoadError:
                continue
            except Exception as error:  # noqa: BLE001  # all of them are shown
                failed.append(f"{case}: {what}: {error!r}"[:300])
    assert not failed, "\n".join(failed)
    assert 0 < played_on < CASES / 2


def fresh(parts: Parts) -> Parts:
    """Return parts that can be written to."""
    return Parts(parts.header, [(name, array.copy()) for name, array in parts.arrays])


def test_a_truncated_or_flipped_file_is_refused(tmp_path: Path) -> None:
    whole, path = content(played("items", 3, **SMALL)), tmp_path / "bandit.lim2"
    rng = np.random.default_rng(0)
    for _ in range(40):
        broken = bytearray(whole)
        if rng.random() < 0.5:
            del broken[int(rng.integers(len(whole))) :]
        else:
            broken[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(broken))
        with pytest.raises(lim2.LoadError, match=r"bandit\.lim2"):
            lim2.load(path)


def test_parts_that_do_not_fit_are_refused() -> None:
    """The agent of one bandit with the encoders of another; a bandit's file within a bandit's file."""
    parts = fresh(parts_of(content(played("items", 3, **SMALL))))
    other = dict(parts_of(content(played("items", 3))).arrays)
    index = parts.names().index("agent")
    for wrong in (other["agent"], np.frombuffer(content(make("arms")), dtype=np.uint8)):
        parts.arrays[index] = "agent", wrong
        with pytest.raises(lim2.LoadError):
            loaded(sealed(parts))
