"""What the attackers have said: every line is a call that has returned, so what it says must be found in the log."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from typing import NamedTuple

TAIL = 12  # lines of each process that are shown when something fails


class Report(NamedTuple):
    """What an agent knew: `digest` is of all it had learned at a position."""

    position: int
    rounds: int
    digest: str
    by: str


class Witness:
    """Hears the lines, and contradicts at once where two of them cannot both be true."""

    def __init__(self) -> None:
        self.decided: dict[str, tuple[str, str]] = {}  # id -> (key, arm)
        self.outcomes: dict[str, dict[str, str]] = {
            "recorded": {},
            "duplicate": {},
            "late": {},
            "missed": {},
        }  # id -> key
        self.changes: Counter[tuple[str, str]] = Counter()  # ("added", arm) -> how often
        self.reports: list[Report] = []
        self.backups: list[tuple[int, str]] = []  # (position, file)
        self.heard: Counter[str] = Counter()  # lines by word
        self._saved: Counter[str] = Counter()  # the position of each process's saved agent
        self._tails: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=TAIL))

    def hear(self, line: str) -> None:
        name, word, *rest = line.split(" ", 2)
        words = rest[0].split() if rest else []
        self._tails[name].append(line)
        self.heard[word] += 1
        if word == "failed":
            raise AssertionError(f"{name} failed:\n{json.loads(rest[0])}")
        if word == "decided":
            id, key, arm = words
            assert id not in self.decided, f"{id} was decided twice: {line}"
            self.decided[id] = key, arm
        elif word in self.outcomes:
            id, key = words
            assert word != "recorded" or id not in self.outcomes[word], f"a reward was recorded twice: {line}"
            self.outcomes[word][id] = key
        elif word in ("added", "removed"):
            self.changes[word, words[0]] += 1
        elif word in ("saved", "loaded", "taken", "knows"):
            self._hear_report(name, word, Report(int(words[0]), int(words[1]), words[2], line))
        elif word == "backup":
            self.backups.append((int(words[1]), words[0]))

    def _hear_report(self, name: str, word: str, report: Report) -> None:
        self.reports.append(report)
        if word == "loaded":
            assert report.position >= self._saved[name], f"{name} had saved position {self._saved[name]}: {report.by}"
        if word == "saved":
            self._saved[name] = report.position

    def story(self) -> str:
        """Return what each process has said last."""
        tails = (f"{name}:\n" + "\n".join(f"  {line[:300]}" for line in tail) for name, tail in self._tails.items())
        return "\n".join([f"lines heard: {dict(self.heard)}", *tails])
