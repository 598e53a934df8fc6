"""OpenML's REST interface on this machine, in its documented forms, with datasets that tests make."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from problems.server import Web

API = "api/v1/json"

CREDIT = """% Credit, after the forms that OpenML's files have
@relation 'credit g'
@attribute 'id' numeric
@attribute duration real
@attribute purpose {car, 'new tv', "other"}
@attribute comment string
@attribute 'class' {good,bad}

@data
1,6.5,car,'it''s',good
2,?,'new tv',"a, b",bad
3, 12 ,?,?,good
4,1e1,"other",x,?
% the end
"""


def feature(name: str, kind: str, *, row_id: bool = False, ignored: bool = False) -> dict[str, str]:
    flags = {"is_row_identifier": str(row_id).lower(), "is_ignore": str(ignored).lower(), "is_target": "false"}
    return {"name": name, "data_type": kind, **flags, "number_of_missing_values": "0"}


CREDIT_FEATURES = [
    feature("id", "numeric", row_id=True),
    feature("duration", "numeric"),
    feature("purpose", "nominal"),
    feature("comment", "string"),
    feature("class", "nominal"),
]


def answer(path: str, content: Any, web: Web) -> None:
    web.files[f"{API}/{path}"] = json.dumps(content).encode()


def put_task(web: Web, task: int, data: int, target: str = "class", kind: int = 1) -> None:
    words = {1: "Supervised Classification", 2: "Supervised Regression"}
    source = {"name": "source_data", "data_set": {"data_set_id": str(data), "target_feature": target}}
    procedure = {"name": "estimation_procedure", "estimation_procedure": {"id": "1", "type": "crossvalidation"}}
    content = {
        "task_id": str(task),
        "task_name": f"Task {task}: a dataset ({words[kind]})",
        "task_type_id": str(kind),
        "task_type": words[kind],
        "input": [procedure, source],
    }
    answer(f"task/{task}", {"task": content}, web)


def put_data(
    web: Web,
    data: int,
    name: str,
    content: bytes,
    features: list[dict[str, str]],
    *,
    parquet: bytes | None = None,
    **changes: Any,
) -> str:
    """Serve a dataset, and return the path of its file."""
    path = f"data/v1/download/{data}/{name}.arff"
    web.files[path] = content
    description = {
        "id": str(data),
        "name": name,
        "version": "1",
        "format": "ARFF",
        "licence": "Public",
        "url": web.url(path),
        "file_id": str(data),
        "default_target_attribute": "class",
        "status": "active",
        "md5_checksum": hashlib.md5(content, usedforsecurity=False).hexdigest(),
    }
    if parquet is not None:
        web.files[f"datasets/{data}.pq"] = parquet
        description["parquet_url"] = web.url(f"datasets/{data}.pq")
    answer(f"data/{data}", {"data_set_description": description | changes}, web)
    indexed = [{"index": str(i), **feature} for i, feature in enumerate(features)]
    answer(f"data/features/{data}", {"data_features": {"feature": indexed}}, web)
    return path


def put_credit(web: Web, task: int = 31, data: int = 31, **changes: Any) -> str:
    """Serve a task with everything that a table may have."""
    put_task(web, task, data)
    return put_data(web, data, "credit-g", CREDIT.replace("''", r"\'").encode(), CREDIT_FEATURES, **changes)


def put_numbers(web: Web, task: int, name: str, rows: int = 60, data: int | None = None) -> None:
    """Serve a task of two columns of numbers and two classes that can be told apart."""
    data = task if data is None else data
    lines = [f"{i % 7},{(i * task) % 5},{'yes' if i % 7 > 3 else 'no'}" for i in range(rows)]
    text = "@relation r\n@attribute a real\n@attribute b real\n@attribute class {no,yes}\n@data\n" + "\n".join(lines)
    put_task(web, task, data)
    columns = [feature("a", "numeric"), feature("b", "numeric"), feature("class", "nominal")]
    put_data(web, data, name, text.encode(), columns)
