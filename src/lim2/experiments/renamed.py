"""Agents and settings that had other names when the kept runs were made.

A run is known by a digest of names and settings. It is computed with the names of that time, so that kept runs are
found and not run again. What is read and shown has the names of today.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Then -> today
RENAMED = {
    "NeuralLinear-MM": "NeuralLinearMM",
    "NeuralLinear-Naive": "NeuralLinearNaive",
    "NeuralLinear-NTK": "NeuralLinearNTK",
    "LiM2-Transport": "TransportTS",
}
RENAMED_SETTINGS = {"TransportTS": {"surprise": "change_threshold"}}


def then(agent: str, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return an agent and its settings by the names that digests are computed with.

    Parameters
    ----------
    agent, settings
        By the names of today.

    Examples
    --------
    >>> then("TransportTS", {"change_threshold": 3.0, "hidden": 64})
    ('LiM2-Transport', {'surprise': 3.0, 'hidden': 64})
    """
    source = next((old for old, new in RENAMED.items() if new == agent), agent)
    names = {new: old for old, new in RENAMED_SETTINGS.get(agent, {}).items()}
    return source, {names.get(name, name): value for name, value in settings.items()}


def today(text: str) -> str:
    """Return a text about kept runs with the names of today.

    Parameters
    ----------
    text
        A name, settings, or a plan as JSON.

    Examples
    --------
    >>> today('{"agent": "limited, online", "agent_text": "NeuralLinear-Naive(buffer=100)"}')
    '{"agent": "limited, online", "agent_text": "NeuralLinearNaive(buffer=100)"}'
    """
    names = {**RENAMED, **{old: new for settings in RENAMED_SETTINGS.values() for old, new in settings.items()}}
    for old, new in names.items():
        text = text.replace(old, new)
    return text
