r"""A Markdown extension that turns TeX into MathML when the site is built: $x$ in a line, $$ x $$ as a block.

Browsers draw MathML by themselves, so a page needs no script for it.

>>> import markdown
>>> text = markdown.markdown(r"The score is $\phi^\top \mu$.", extensions=["tools.formulas"])
>>> text.startswith("<p>The score is <math") and "$" not in text
True
"""

import re
from xml.etree import ElementTree as ET

from latex2mathml.converter import convert_to_element
from markdown import Markdown
from markdown.blockprocessors import BlockProcessor
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.util import AtomicString

# No space inside, so that prices stay prices: "$5 and $6".
INLINE = r"(?<![\\$\w])\$(?=[^\s$])([^$\n]*?[^\s$\\])\$(?![\w$])"
TILDE, SIMILAR = "&#x0007E;", "&#x0223C;"  # what latex2mathml makes of the command sim, and what it stands for


def element(tex: str, display: str) -> ET.Element:
    """Return MathML of a formula; its TeX is the alternative text."""
    made: ET.Element = convert_to_element(tex.strip(), display=display)
    made.set("alttext", " ".join(tex.split()))
    for part in made.iter():  # no other pattern of Markdown looks into a formula
        part.text = part.text and AtomicString(part.text)
        part.tail = part.tail and AtomicString(part.tail)
        if part.tag == "mi" and part.text == TILDE:  # it would stand like a letter, without space around it
            part.tag, part.text = "mo", AtomicString(SIMILAR)
    return made


class Inline(InlineProcessor):
    """A formula in a line."""

    def handleMatch(  # type: ignore[override]  # noqa: N802
        self, m: re.Match[str], data: str  # noqa: ARG002
    ) -> tuple[ET.Element, int, int]:  # fmt: skip
        """Return its element, and where it begins and ends."""
        return element(m[1], "inline"), m.start(0), m.end(0)


class Block(BlockProcessor):
    """A formula that is a paragraph."""

    def test(self, parent: ET.Element, block: str) -> bool:  # noqa: ARG002
        """Return whether a block is a formula."""
        return block.startswith("$$") and block.rstrip().endswith("$$") and len(block.strip()) > 4

    def run(self, parent: ET.Element, blocks: list[str]) -> None:
        """Append its element."""
        box = ET.SubElement(parent, "div", {"class": "formula"})
        box.append(element(blocks.pop(0).strip()[2:-2], "block"))


class Formulas(Extension):
    """The extension."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Add both forms; a line's before escapes and emphasis, so that backslashes and underscores stay."""
        md.inlinePatterns.register(Inline(INLINE, md), "formula", 185)
        md.parser.blockprocessors.register(Block(md.parser), "formula", 175)


def makeExtension(**settings: object) -> Formulas:  # noqa: N802
    """Return the extension, as Markdown asks for it."""
    return Formulas(**settings)
