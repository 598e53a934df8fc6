from __future__ import annotations

from pathlib import Path

import pytest

from lim2.log import LogFileError, read_open_bandit

pytestmark = pytest.mark.one_store

HEAD = (
    ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,user-item_affinity_0,"
    "user-item_affinity_1,user-item_affinity_2\n"
)
ROWS = (
    "0,2019-11-24 00:00:34.762830+00:00,2,3,0,0.25,f00,aa,0.0,1.0,0.0\n"
    "1,2019-11-24 00:00:30.000000+00:00,0,1,1,0.5,ba5,aa,0.0,0.0,0.0\n"
    "2,2019-11-24 00:00:40.100000+00:00,2,2,0,0.5,f00,bb,0.0,0.0,2.0\n"
)
ITEMS = (
    ",item_id,item_feature_0,item_feature_1\n"
    "0,2,-0.5,x\n"
    "1,0,0.25,y\n"
    "2,1,0.75,x\n"
)  # fmt: skip


def write(folder: Path, rows: str = ROWS, items: str = ITEMS, head: str = HEAD) -> Path:
    (folder / "all.csv").write_text(head + rows)
    (folder / "item_context.csv").write_text(items)
    return folder


def test_impressions_in_the_order_of_their_time(tmp_path: Path) -> None:
    log = read_open_bandit(write(tmp_path))
    table = log.table
    assert table.arms == (0, 1, 2)
    assert table.chosen.tolist() == [0, 2, 2]
    assert table.rewards.tolist() == [1.0, 0.0, 0.0]
    assert table.propensity.tolist() == [0.5, 0.25, 0.5]
    assert table.eligible.all()
    assert log.feature_names == (
        "position=1", "position=2", "position=3", "user_feature_0=ba5", "user_feature_0=f00", "user_feature_1=aa",
        "user_feature_1=bb",
    )  # fmt: skip
    assert table.contexts[1].tolist() == [0, 0, 1, 0, 1, 1, 0]
    assert log.item_feature_names == ("item_feature_0", "item_feature_1=x", "item_feature_1=y")
    assert log.items.tolist() == [[0.25, 0.0, 1.0], [0.75, 1.0, 0.0], [-0.5, 1.0, 0.0]]
    assert log.shown.tolist() == log.items[[0, 2, 2]].tolist()


def test_the_first_rows_only(tmp_path: Path) -> None:
    assert len(read_open_bandit(write(tmp_path), rows=2).table) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("2,3,0,0.25", "7,3,0,0.25"), "column item_id: item 7 was shown but is not in item_context.csv"),
        (("2,3,0,0.25", "2,3,2,0.25"), "line 2, column click: 2, expected 0 or 1"),
        (("0,1,1,0.5", "0,1,1,0.0"), "line 3, column propensity_score: 0.0, expected more than 0"),
        (("0,1,1,0.5", "0,1,1,"), "line 3, column propensity_score: None, expected"),
        (("0,1,1,0.5", "0,1,no,0.5"), "cannot be read as a table"),
    ],
)
def test_what_is_wrong_is_said(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(LogFileError, match=message):
        read_open_bandit(write(tmp_path, ROWS.replace(*change)))


def test_other_files(tmp_path: Path) -> None:
    write(tmp_path, head=HEAD.replace("click", "clicked"))
    with pytest.raises(LogFileError, match="column click: there is no such column"):
        read_open_bandit(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"men\.csv: give the folder of a policy and campaign"):
        read_open_bandit(tmp_path, "men")
    write(tmp_path, items="item_id,price\n0,1\n")
    with pytest.raises(LogFileError, match="column item_feature_0: there is no such column"):
        read_open_bandit(tmp_path)
