"""The words of the library are those of the field: names and phrases that were replaced do not come back."""

import re
from pathlib import Path

import pytest

import lim2

SOURCE = Path(lim2.__file__).parent
TEXTS = sorted(path for kind in ("*.py", "*.html") for path in SOURCE.rglob(kind))

# What must not be said, and what is said instead. Only whole words count; a name may have them as one of its parts.
REPLACED = {
    "believer": "a composition",
    "neuralbeliever": "a composition",
    "_look": "score",
    "_chances": "score",
    "class Carried": "matched prior",
    "doubt": "change detection",
    "doubtful": "unreliable",
    "widening": "prior inflation",
    "widened": "inflated",
    "surprise": "change_threshold",
    "surprised": "change detected",
    "foresight": "predictive log density",
    "settled": "reference",
    "victim": "arm to evict",
    "loser": "arm to evict",
    "for ever": "forever",
    "told": "given, reported, diagnostics",
    "LiM2-Transport": "AdaptiveTS",
    "NeuralLinear-MM": "NeuralLinearMM",
    "NeuralLinear-Naive": "NeuralLinearNaive",
    "NeuralLinear-NTK": "NeuralLinearNTK",
}

# Where a word is the right one.
ALLOWED = {
    "settled": ("log/", "commands/logs.py"),  # a decision is settled when its reward is there, or it has expired
    **dict.fromkeys(
        (word for word in REPLACED if "-" in word), ("experiments/renamed.py",)
    ),  # the names that kept runs were made under
}


def uses(word: str, text: str) -> list[str]:
    """Return the lines of a text in which a word is used."""
    pattern = re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", re.IGNORECASE)
    return [line.strip() for line in text.splitlines() if pattern.search(line)]


@pytest.mark.parametrize("word", REPLACED)
def test_a_word_that_was_replaced_does_not_come_back(word: str) -> None:
    found = []
    for path in TEXTS:
        where = path.relative_to(SOURCE).as_posix()
        if not where.startswith(ALLOWED.get(word, ("nowhere",))):
            found += [f"{where}: {line}" for line in uses(word, path.read_text(encoding="utf-8"))]
    assert not found, f"say {REPLACED[word]!r}, not {word!r}:\n" + "\n".join(found)


def test_what_counts_as_a_use() -> None:
    assert uses("loser", "the loser leaves\ncloser") == ["the loser leaves"]
    assert uses("_look", "self._look()\n_looked = 1") == ["self._look()"]
    assert uses("doubt", "class Doubt:\n_doubt_of_arm = 1") == ["class Doubt:", "_doubt_of_arm = 1"]
    assert uses("for ever", "kept for ever.\nfor everyone") == ["kept for ever."]
