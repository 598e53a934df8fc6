r"""A Markdown extension that marks the cells of a table that hold prose, so that a wide table leaves them room.

A table that is wider than its page scrolls, and a browser would break its prose after every word.

>>> import markdown
>>> text = markdown.markdown(f"| a | b |\n|---|---|\n| 1 | {'word ' * 20} |", extensions=["tables", "tools.tables"])
>>> text.count("<td"), text.count('<td class="prose"')
(2, 1)
"""

from xml.etree import ElementTree as ET

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

CLASSES = {150: "prose long", 45: "prose"}  # for cells with more characters


class Mark(Treeprocessor):
    """Gives a class to cells with many characters."""

    def run(self, root: ET.Element) -> None:
        """Mark all cells of a page."""
        for cell in root.iter("td"):
            length = len("".join(cell.itertext()))
            name = next((name for least, name in CLASSES.items() if length > least), None)
            if name is not None:
                cell.set("class", name)


class Tables(Extension):
    """The extension."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Mark after inline patterns are replaced, so that only what is shown counts."""
        md.treeprocessors.register(Mark(md), "prose", 5)


def makeExtension(**settings: object) -> Tables:  # noqa: N802
    """Return the extension, as Markdown asks for it."""
    return Tables(**settings)
