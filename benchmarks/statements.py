"""`python -m benchmarks.statements`: what README and the pages on results say follows from the kept runs.

A page has passages between ``<!-- name -->`` and ``<!-- /name -->``, which functions of `benchmarks.sentences` make
from the kept runs. They are checked to be what these functions return today; ``--write`` puts them in anew. Everywhere
else a number or a verdict is refused, unless it is code, or in a passage that is declared to be no result:
``<!-- no result: what it is instead -->`` to ``<!-- /no result -->``.

Tables, reports and digests in docs/results are checked against the runs, too, so that a run that was changed by hand is
found whatever the pages round away.
"""

import argparse
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import sentences
from benchmarks.kept import Kept
from benchmarks.passages import passage, with_passage
from benchmarks.sentences import Make
from lim2.paper.sections import Section
from lim2.paper.write import headline, latex_of, markdown_of

# Passages by page, from the root of the checkout.
PAGES: Mapping[str, Mapping[str, Make]] = {
    "README.md": {
        "compared": sentences.compared,
        "rivals": sentences.rivals_verdict,
    },
    "docs/research/results.md": {
        "paper verdict": sentences.paper_verdict,
        "paper": sentences.paper_table,
        "forever": sentences.forever,
    },
    "docs/reproduction.md": {
        "claims": sentences.claims,
        "criteria": sentences.criteria,
        "cells": sentences.cells,
        "differences": sentences.differences,
        "pieces": sentences.pieces,
        "runs": sentences.runs_short,
    },
    "docs/past-the-paper.md": {
        "rivals": sentences.rivals,
        "played": sentences.played,
        "tuning": sentences.tuning,
        "suite": sentences.suite,
        "mechanisms": sentences.mechanisms,
        "cases": sentences.cases,
        "calibration": sentences.calibration,
        "limits": sentences.limits,
    },
}
BY_OTHERS = ("speed",)  # passages that `python -m benchmarks.readme` writes
DIGESTS = "SHA256SUMS"
REPORT_END = "## Repeat it"  # after it: commands and machines

NUMBERS = r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|half|third|quarter|twice"
VERDICTS = (
    r"better|worse|best|worst|ahead|behind|beats?|outperforms?|outperformed|wins?|significant(?:ly)?|reproduce[sd]"
    r"|strongest|faster|slower|higher|lower|equivalent"
)
STATED = re.compile(rf"\d|\b(?:{NUMBERS}|{VERDICTS})\b", re.IGNORECASE)
NOT_PROSE = (
    r"<!-- no result: [^>]*-->.*?<!-- /no result -->",
    r"```.*?```",
    r"`[^`]*`",
    r"!\[[^]]*\]\([^)]*\)",
    r"\]\([^)]*\)",  # where a link leads; its words are prose
    r"\blim2\b|\bLiM2\b",
)


def rendered(text: str, makes: Mapping[str, Make], kept: Kept) -> str:
    """Return a page with its passages made anew.

    Parameters
    ----------
    text
        The page.
    makes
        What makes its passages, by name.
    kept
        The runs.
    """
    for name, make in makes.items():
        text = with_passage(text, name, make(kept))
    return text


def undeclared(text: str, made: Mapping[str, object]) -> list[str]:
    r"""Return the lines of a page that have a number or a verdict outside of passages that are made or declared.

    Parameters
    ----------
    text
        The page.
    made
        Names of passages that are made.

    Examples
    --------
    >>> page = "<!-- a -->\n12 of 13\n<!-- /a -->\nIt is ahead. See `x2`.\nIt is fine."
    >>> undeclared(page, {"a": None})
    ['line 4: It is ahead. See `x2`.']
    """
    patterns = [passage(name) for name in (*made, *BY_OTHERS)] + [re.compile(p, re.DOTALL) for p in NOT_PROSE]
    bare = text
    for pattern in patterns:
        bare = pattern.sub(lambda match: "\n" * match[0].count("\n"), bare)
    lines = zip(text.splitlines(), bare.splitlines(), strict=False)
    return [f"line {i}: {line}" for i, (line, left) in enumerate(lines, 1) if STATED.search(left)]


def made_files(kept: Kept) -> dict[Path, str]:
    """Return what files in docs/results must say, by path.

    Parameters
    ----------
    kept
        The runs.
    """
    found = {}
    for sheet in (sheet for section in kept.sections.values() for sheet in section.sheets):
        found[kept.results / "tables" / f"{sheet.name}.csv"] = sheet.data.write_csv(float_precision=6)
        found[kept.results / "tables" / f"{sheet.name}.tex"] = latex_of(sheet)
    found[kept.past / "against.csv"] = kept.comparisons.write_csv()
    report = kept.results / "report.md"
    end = report.read_text().partition(REPORT_END)[2]
    found[report] = markdown_of(list(kept.sections.values()), [], {}).partition(REPORT_END)[0] + REPORT_END + end
    return found


def equal(text: str, other: str) -> bool:
    """Return whether two texts are equal, apart from the last digits of their numbers, which machines round otherwise.

    Examples
    --------
    >>> equal("p 0.12345678901234567", "p 0.12345678901234561"), equal("p 0.1234", "p 0.1235")
    (True, False)
    """
    long = re.compile(r"(\d\.\d{10})\d+")
    return long.sub(r"\1", text) == long.sub(r"\1", other)


def unshown(page: str, sections: Sequence[Section]) -> list[str]:
    """Return what an HTML report should show and does not: its headline, evidence of claims, rows of tables.

    Parameters
    ----------
    page
        The report.
    sections
        What it should show.
    """
    words = re.sub(r"[▲▼]\s*(?:better|worse)", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))  # marks of cells
    shown = " ".join(words.split())
    wanted = [headline(sections)]
    for section in sections:
        wanted += [claim.evidence for claim in (*section.claims, *section.criteria)] + list(section.findings)
        wanted += [" ".join(f"{c.text} {c.below}" for c in row) for sheet in section.sheets for row in sheet.rows]
    return [text for text in wanted if " ".join(text.split()) not in shown]


def digests(kept: Kept) -> str:
    """Return the digests of the files with runs, as `sha256sum` writes them.

    Parameters
    ----------
    kept
        The runs.
    """
    lines = [
        f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.relative_to(kept.results).as_posix()}" for f in kept.files
    ]
    return "\n".join(lines) + "\n"


def problems(kept: Kept) -> list[str]:
    """Return what does not follow from the runs, a line each.

    Parameters
    ----------
    kept
        The runs, and the pages beside them.
    """
    found = []
    for name, makes in PAGES.items():
        text = (kept.root / name).read_text()
        for passage_name, make in makes.items():
            if rendered(text, {passage_name: make}, kept) != text:
                found.append(f"{name}: {passage_name!r} is not what the kept runs give")
        found += [f"{name}, {line}: a number or verdict, neither made from runs nor declared to be no result"
                  for line in undeclared(text, makes)]  # fmt: skip
    for path, text in made_files(kept).items():
        if not equal(path.read_text(), text):
            found.append(f"{path.relative_to(kept.root)}: is not what the kept runs give")
    if unshown((kept.results / "report.html").read_text(), list(kept.sections.values())):
        found.append("docs/results/report.html: is of other runs; `lim2 paper report --to docs/results` writes it anew")
    if (kept.results / DIGESTS).read_text() != digests(kept):
        found.append(f"docs/results/{DIGESTS}: a file with runs was changed")
    return found


def write(kept: Kept) -> None:
    """Put passages, tables and digests in anew.

    Parameters
    ----------
    kept
        The runs, and the pages beside them.
    """
    for path, text in made_files(kept).items():
        path.write_text(text)
    (kept.results / DIGESTS).write_text(digests(kept))
    for name, makes in PAGES.items():
        page = kept.root / name
        page.write_text(rendered(page.read_text(), makes, kept))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the passages in anew")
    kept = Kept()
    if parser.parse_args().write:
        write(kept)
    found = problems(kept)
    for line in found:
        print(line)
    if found:
        raise SystemExit(f"{len(found)} statements do not follow from the kept runs; --write makes what can be made")
    print(f"All statements in {', '.join(PAGES)} follow from the kept runs.")


if __name__ == "__main__":
    main()
