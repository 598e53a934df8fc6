"""The tables of `docs/research/problems.md`, made from the registry: `python -m tools.problem_tables` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lim2.problems.facts import Facts, described
from lim2.problems.registry import Entry, Kind, entries
from lim2.problems.sources import SOURCES

START, END = "<!-- {name}: written by python -m tools.problem_tables -->", "<!-- end of {name} -->"


def datasets_table() -> str:
    """Return the table of the datasets, in Markdown."""
    head = (
        "problem",
        "files, source",
        "licence",
        "rows",
        "d",
        "paper's d",
        "arms",
        "rows of each class",
        "preprocessing",
    )
    found = [(entry, entry.facts) for entry in entries() if entry.facts is not None]
    return _markdown(head, [_dataset(entry, facts) for entry, facts in found if facts.n_item_features is None])


def items_table() -> str:
    """Return the table of the datasets whose arms are items, in Markdown."""
    head = ("problem", "files, source", "licence", "rounds", "d", "d of an item", "items per round", "preprocessing")
    found = [(entry, entry.facts) for entry in entries() if entry.facts is not None]
    return _markdown(head, [_with_items(entry, facts) for entry, facts in found if facts.n_item_features is not None])


def _with_items(entry: Entry, facts: Facts) -> tuple[str, ...]:
    source = SOURCES[facts.files[0]]
    files = ", ".join(f"`{file}`" for file in facts.files)
    return (
        f"`{entry.name}`",
        f"{files}, <{source.page}>",
        source.licence,
        f"{facts.most_rounds:,}",
        str(facts.n_features),
        str(facts.n_item_features),
        f"at most {facts.n_arms}",
        facts.preprocessing,
    )


def _dataset(entry: Entry, facts: Facts) -> tuple[str, ...]:
    source = SOURCES.get(facts.files[0])
    files = ", ".join(f"`{Path(file).name}`" for file in facts.files)
    page = source.page if source else ""
    counts = facts.published
    classes = described(counts.balance) if counts else ""
    for copy in facts.copies:
        classes += f"; {copy.rows:,} rows: {described(copy.balance)}"
    standard = entry.settings.get("standardize", "no")
    scaled = "; standardised over the drawn rows" if standard == "sample" else ""
    differs = f". **d**: {facts.difference}" if facts.difference else ""
    return (
        f"`{entry.name}`",
        f"{files}, <{page}>",
        source.licence if source else "",
        f"{counts.rows:,}" if counts else "",
        str(facts.n_features),
        facts.paper_features,
        str(facts.n_arms),
        classes.removeprefix("; ") or "-",
        f"{facts.preprocessing}{scaled}{differs}",
    )


def synthetic_table(kind: Kind = "synthetic") -> str:
    """Return the table of the problems without files, in Markdown."""
    rows = [
        (
            f"`{entry.name}`",
            entry.summary,
            f"{entry.rounds:,}",
            ", ".join(f"`{key}={value!r}`" for key, value in entry.settings.items()),
        )
        for entry in entries()
        if entry.kind == kind
    ]
    return _markdown(("problem", "what it is", "rounds", "settings and defaults"), rows)


def _markdown(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def renewed(text: str) -> str:
    """Return a page with new tables."""
    tables = {
        "datasets": datasets_table(),
        "items": items_table(),
        "synthetic": synthetic_table(),
        "worlds": synthetic_table("world"),
    }
    for name, table in tables.items():
        start, end = START.format(name=name), END.format(name=name)
        before, found, rest = text.partition(start)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"the page lacks the marks {start} and {end}")
        text = f"{before}{start}\n\n{table}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    page = Path("docs/research/problems.md")
    page.write_text(renewed(page.read_text()))
