"""The pages of the documentation, and the code on them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n`]*\n(?P<text>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """A block of code on a page."""

    page: Path
    line: int  # of its first line of code
    language: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of a page, in order; of some languages, or all."""
    return [block for block in _all(page) if not languages or block.language in languages]


def _all(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        indent = len(found["indent"])
        code = "".join(line[indent:] if line.strip() else line for line in found["text"].splitlines(keepends=True))
        yield Block(page, text.count("\n", 0, found.start("text")) + 1, found["language"], code)


def without_numbers(text: str) -> str:
    """Return a text in which every number is a sign: decisions, and so figures, differ between machines."""
    return " ".join(re.sub(r"-?\d[\d,]*(\.\d+)?", "#", text).split())
