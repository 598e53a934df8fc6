"""Figures as SVG inside a page, in the page's colours."""

from __future__ import annotations

import re
from io import StringIO

import matplotlib as mpl
from matplotlib.figure import Figure

from lim2.experiments.report.colours import GREY, SHADES, name
from lim2.experiments.report.figures import FAINT, GRID, INK

_VARIABLES = {
    INK: "--ink",
    FAINT: "--faint",
    GRID: "--line",
    GREY[0]: name(-1),
    **{light: name(i) for i, (light, _) in enumerate(SHADES)},
}


def as_text(figure: Figure) -> str:
    """Return a figure as SVG, the same for the same figure.

    Parameters
    ----------
    figure
        As drawn.
    """
    buffer = StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lim2"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def inline(text: str, prefix: str, title: str) -> str:
    """Return an SVG to be put into a page.

    Its colours become variables of the page's style sheet, so that they follow light and dark; its ids get a prefix,
    because a page's ids must differ; what belongs to an agent gets a class, to be found by the page's legend.

    Parameters
    ----------
    text
        An SVG file.
    prefix
        Of this figure's ids.
    title
        What a screen reader says.

    Examples
    --------
    >>> file = '<?xml?><svg width="1pt" viewBox="0 0 1 2"><g id="series0" style="fill: #2160c4"/></svg>'
    >>> inline(file, "f", "T")
    '<svg role="img" aria-label="T" viewBox="0 0 1 2"><g class="series0" style="fill: var(--c0)"/></svg>'
    """
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*|<style.*?</style>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'<svg\b[^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg role="img" aria-label="{title}" \1>', text, count=1)
    text = re.sub(r'id="(series-?\d+)[^"]*"', r'class="\1"', text)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
    text = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'href="#{prefix}-\2"', text)
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    text = re.sub(r"(font: [^;\"']*?)'[^;\"]*", r"\1system-ui, sans-serif", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return text
