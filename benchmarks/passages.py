"""Passages of pages that commands make: between ``<!-- name -->`` and ``<!-- /name -->``."""

import re
from pathlib import Path


def passage(name: str) -> re.Pattern[str]:
    """Return what finds a passage of a page, with the markers as its first and last group."""
    return re.compile(rf"(<!-- {re.escape(name)} -->\n)(.*?)(<!-- /{re.escape(name)} -->)", re.DOTALL)


def with_passage(text: str, name: str, made: str) -> str:
    r"""Return a page with another content of one passage.

    Examples
    --------
    >>> with_passage("<!-- a -->\nold\n<!-- /a -->", "a", "new")
    '<!-- a -->\nnew\n<!-- /a -->'
    """
    found = len(passage(name).findall(text))
    if found != 1:
        raise SystemExit(f"a page must have one passage <!-- {name} --> ... <!-- /{name} -->, not {found}")
    return passage(name).sub(lambda match: f"{match[1]}{made}\n{match[3]}", text)


def write_passage(page: Path, name: str, made: str) -> None:
    """Write a passage of a page, and show it."""
    page.write_text(with_passage(page.read_text(), name, made))
    print(made)
