"""Agents that had other names when the kept runs were made.

A run is known by a digest of names and settings. It is computed with the names of that time, so that kept runs are
found and not run again. What is read and shown has the names of today.
"""

from __future__ import annotations

# Then -> today
RENAMED = {
    "NeuralLinear-MM": "NeuralLinearMM",
    "NeuralLinear-Naive": "NeuralLinearNaive",
    "NeuralLinear-NTK": "NeuralLinearNTK",
}


def then(agent: str) -> str:
    """Return the name of an agent that digests are computed with.

    Examples
    --------
    >>> then("NeuralLinearMM"), then("LiM2")
    ('NeuralLinear-MM', 'LiM2')
    """
    return next((old for old, new in RENAMED.items() if new == agent), agent)


def today(text: str) -> str:
    """Return a text about kept runs with the names of today.

    Examples
    --------
    >>> today('{"agent": "limited, online", "agent_text": "NeuralLinear-Naive(buffer=100)"}')
    '{"agent": "limited, online", "agent_text": "NeuralLinearNaive(buffer=100)"}'
    """
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    return text
