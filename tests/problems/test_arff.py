"""ARFF, as OpenML's files have it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.io import arff

from lim2.problems import DataError
from lim2.problems.arff import Attribute, read_arff

HEAD = "@RELATION r\n@ATTRIBUTE a NUMERIC\n@attribute 'b c' { x, 'y z', \"?\" }\n@Data\n"


def table(tmp_path: Path, text: str) -> list[tuple[object, ...]]:
    path = tmp_path / "t.arff"
    path.write_text(text)
    return read_arff(path)[0].rows()


def test_quotes_missing_values_comments_and_spaces(tmp_path: Path) -> None:
    rows = table(tmp_path, HEAD + "% a comment\n 1 , x\n\n?,'y z'\n-2.5e1,\"?\"\r\n7,?\n")
    assert rows == [(1.0, "x"), (None, "y z"), (-25.0, "?"), (7.0, None)]


def test_rows_without_quotes_are_read_alike_by_both_ways(tmp_path: Path) -> None:
    body = "1,x\n ? , x\r\n3 ,?\n"
    quick, slow = table(tmp_path, HEAD + body), table(tmp_path, HEAD + "% this line has the slow way taken\n" + body)
    assert quick == slow == [(1.0, "x"), (None, "x"), (3.0, None)]


def test_sparse_rows(tmp_path: Path) -> None:
    rows = table(tmp_path, HEAD + "{0 5, 1 'y z'}\n{}\n{1 ?}\n{0 ?, 1 x }\n")
    assert rows == [(5.0, "y z"), (0.0, "x"), (0.0, None), (None, "x")]


def test_names_types_and_escapes(tmp_path: Path) -> None:
    path = tmp_path / "t.arff"
    path.write_text(
        "@relation r\n@attribute it\\'s real\n@attribute 'a\\'b' string\n@attribute d DATE 'yyyy-MM-dd'\n"
        "@attribute n {1,2}\n@data\n1,'don\\'t\\n',2020-01-01,2\n"
    )
    frame, columns = read_arff(path)
    assert columns[1:] == (Attribute("a'b", "string"), Attribute("d", "date"), Attribute("n", "nominal", ("1", "2")))
    assert frame.rows() == [(1.0, "don't\n", "2020-01-01", "2")]


def test_as_scipy_reads_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{x!r},{word}" for x, word in zip(rng.normal(size=50).tolist(), rng.choice(["u", "v"], 50), strict=True)]
    path = tmp_path / "t.arff"
    path.write_text("@relation r\n@attribute x real\n@attribute w {u,v}\n@data\n" + "\n".join(rows) + "\n")
    theirs, _ = arff.loadarff(path)
    ours, _ = read_arff(path)
    assert ours["x"].to_list() == theirs["x"].tolist()
    assert ours["w"].to_list() == [word.decode() for word in theirs["w"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no line @data"),
        ("@data\n1\n", "line 1: @data comes before any @attribute"),
        ("hello\n", "line 1: expected @attribute, @data or a comment, not 'hello'"),
        ("@attribute a\n@data\n", "line 1: expected @attribute NAME TYPE"),
        ("@attribute a complex\n@data\n", "line 1: 'a' is of the unknown type 'complex'"),
        ("@attribute a {}\n@data\n", "line 1: the values of 'a'"),
        ("@attribute a {x\n@data\n", "line 1: the values of 'a'"),
        ("@attribute a real\n@attribute a real\n@data\n", "line 2: two columns are called 'a'"),
        (HEAD, "line 4: there are no rows after @data"),
        (HEAD + "1,x\n1\n", "line 6: 1 fields, but there are 2 columns"),
        (HEAD + "1,x\n1,'x',2\n", "line 6: 3 fields, but there are 2 columns"),
        (HEAD + "{0 5\n", "line 5: the row cannot be read"),
        (HEAD + "{7 5}\n", "line 5: the row cannot be read"),
        (HEAD + "1,x\none,x\n", "column a: 'one' in row 2 after @data is not a number"),
        (HEAD + "1,q\n", "column b c: 'q' in row 1 after @data is not one of x, y z, ?"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.arff"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_arff(path)
    assert message in str(caught.value)


def test_files_of_openml_itself() -> None:
    """scikit-learn keeps some of OpenML's answers: columns and missing values are those that OpenML counts."""
    sklearn = pytest.importorskip("sklearn")
    folder = Path(sklearn.__file__).parent / "datasets" / "tests" / "data" / "openml"
    if not folder.is_dir():
        pytest.skip("this scikit-learn came without its tests")
    for data, rows in ((40945, 1309), (62, 101), (561, 209), (61, 150), (42585, 344)):
        place = folder / f"id_{data}"
        listed = json.loads(gzip.decompress((place / f"api-v1-jdf-{data}.json.gz").read_bytes()))
        features = listed["data_features"]["feature"]
        frame, columns = read_arff(next(place.glob("data-v1-dl-*.arff.gz")))
        assert frame.columns == [feature["name"] for feature in features]
        assert [column.kind for column in columns] == [feature["data_type"] for feature in features]
        missing = [column.null_count() for column in frame.iter_columns()]
        assert missing == [int(feature["number_of_missing_values"]) for feature in features]
        assert frame.height == rows
