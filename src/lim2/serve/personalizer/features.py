"""Personalizer's lists of features as the dictionaries that a bandit takes."""

from collections.abc import Sequence
from typing import Any

IDENTITY = "id"  # the feature of an action that has no other


def merged(features: Sequence[dict[str, Any]] | None) -> dict[str, Any]:
    """Return one dictionary for a list of them; keys that begin with an underscore are left out.

    Dictionaries under the same key are merged. Another value under a key that is there already gets a key of its own.

    Examples
    --------
    >>> merged([{"user": {"age": 31, "_id": 7}}, {"user": {"plan": None}}, {"_note": "x", "hour": [0.2, 0.5]}])
    {'user': {'age': 31, 'plan': None}, 'hour': [0.2, 0.5]}
    >>> merged([{"tag": "a"}, {"tag": "b"}])
    {'tag': 'a', 'tag 2': 'b'}
    """
    out: dict[str, Any] = {}
    for part in features or ():
        _add(out, part)
    return out


def of_action(name: str, features: Sequence[dict[str, Any]] | None) -> dict[str, Any]:
    """Return the features of an action; one without any is known by its id.

    Examples
    --------
    >>> of_action("pasta", [{"taste": "salty"}]), of_action("tea", [])
    ({'taste': 'salty'}, {'id': 'tea'})
    """
    return merged(features) or {IDENTITY: name}


def _add(out: dict[str, Any], part: dict[str, Any]) -> None:
    for key, value in part.items():
        if key.startswith("_"):
            continue
        if key not in out and type(value) is not dict:  # nearly always
            out[key] = value
            continue
        if isinstance(value, dict):
            there = out.setdefault(key, {})
            if isinstance(there, dict):
                _add(there, value)
                continue
        if key in out and out[key] != value:
            key = _free(out, key)
        out[key] = value


def _free(out: dict[str, Any], key: str) -> str:
    number = 2
    while f"{key} {number}" in out:
        number += 1
    return f"{key} {number}"
