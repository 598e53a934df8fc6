"""`python -m benchmarks.statements`: what README and the pages on results say follows from the kept runs.

Tables between ``<!-- name -->`` and ``<!-- /name -->`` are made by `benchmarks.result_tables`. Prose is written by
hand; the numbers in its sentences are compared with those of `benchmarks.sentences`. ``--write`` puts in tables and
numbers anew; a sentence whose verdict has changed must then be rewritten.

Tables, reports and digests in docs/results are checked against the runs, too, so that a run that was changed by hand is
found whatever the pages round away.
"""

import argparse
import hashlib
import html
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import result_tables, sentences
from benchmarks.kept import Kept
from benchmarks.passages import with_passage
from benchmarks.sentences import Sentences
from lim2.paper.sections import Section
from lim2.paper.write import headline, latex_of, markdown_of

# Tables by page, from the root of the checkout.
TABLES: Mapping[str, Sequence[Callable[[Kept], str]]] = {
    "README.md": [],
    "ARTIFACT.md": [result_tables.artifact],
    "docs/research/results.md": [result_tables.paper],
    "docs/research/reproduction.md": [
        result_tables.claims,
        result_tables.criteria,
        result_tables.pieces,
        result_tables.collapse,
    ],
    "docs/research/benchmarks.md": [
        result_tables.worlds,
        result_tables.rivals,
        result_tables.played,
        result_tables.tuning,
        result_tables.suite,
        result_tables.mechanisms,
        result_tables.cases,
        result_tables.calibration,
    ],
    "docs/guides/catalogues.md": [],
    "docs/guides/faq.md": [],
}
SENTENCES: Mapping[str, Sequence[Callable[[Kept], Sentences]]] = {
    "README.md": [sentences.standing, sentences.worlds],
    "ARTIFACT.md": [],
    "docs/research/results.md": [sentences.verdict, sentences.forever],
    "docs/research/reproduction.md": [
        sentences.verdict,
        sentences.cells,
        sentences.slow,
        sentences.partial_files,
        sentences.time,
        sentences.late,
    ],
    "docs/research/benchmarks.md": [sentences.rivals, sentences.worlds, sentences.limits],
    "docs/guides/catalogues.md": [sentences.items],
    "docs/guides/faq.md": [sentences.banner],
}
DIGESTS = "SHA256SUMS"
REPORT_END = "## Repeat it"  # after it: commands and machines


def compared(text: str, sentence: str, values: Sequence[object]) -> tuple[str, str | None]:
    r"""Return a page with the values of a sentence put in, and what was wrong with them, or None.

    Examples
    --------
    >>> compared("It is ahead\non 7 of 11.", "ahead on {} of {}.", [8, 11])
    ('It is ahead\non 8 of 11.', '“ahead on {} of {}.”: 7, 11 should be 8, 11')
    >>> compared("It is behind.", "ahead on {} of {}.", [8, 11])[1]
    '“ahead on {} of {}.” is not on the page'
    """
    words = r"\s+".join(re.escape(word) for word in sentence.split()).replace(r"\{\}", "(.{1,80}?)")
    found = re.search(rf"{words}(?!\d)", text, re.DOTALL)
    if found is None:
        return text, f"“{sentence}” is not on the page"
    wanted, shown = [str(value) for value in values], [" ".join(group.split()) for group in found.groups()]
    if shown == wanted:
        return text, None
    for number, value in reversed(list(enumerate(wanted, 1))):
        text = text[: found.start(number)] + value + text[found.end(number) :]
    return text, f"“{sentence}”: {', '.join(shown)} should be {', '.join(wanted)}"


def renewed(name: str, text: str, kept: Kept) -> tuple[str, list[str]]:
    """Return a page with its tables and numbers made anew, and what was wrong with them."""
    wrong = []
    for make in TABLES[name]:
        title = make.__name__
        before, text = text, with_passage(text, title, make(kept))
        if before != text:
            wrong.append(f"{name}: the table {title!r} is not what the kept runs give")
    for of in SENTENCES[name]:
        for sentence, values in of(kept).items():
            text, complaint = compared(text, sentence, values)
            if complaint:
                wrong.append(f"{name}: {complaint}")
    return text, wrong


def made_files(kept: Kept) -> dict[Path, str]:
    """Return what files in docs/results must say, by path."""
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
    """Return what an HTML report should show and does not: its headline, evidence of claims, rows of tables."""
    words = re.sub(r"[▲▼]\s*(?:better|worse)", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))  # marks of cells
    shown = " ".join(words.split())
    wanted = [headline(sections)]
    for section in sections:
        wanted += [claim.evidence for claim in (*section.claims, *section.criteria)] + list(section.findings)
        wanted += [" ".join(f"{c.text} {c.below}" for c in row) for sheet in section.sheets for row in sheet.rows]
    return [text for text in wanted if " ".join(text.split()) not in shown]


def digests(kept: Kept) -> str:
    """Return the digests of the files with runs, as `sha256sum` writes them."""
    lines = [
        f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.relative_to(kept.results).as_posix()}" for f in kept.files
    ]
    return "\n".join(lines) + "\n"


def problems(kept: Kept) -> list[str]:
    """Return what does not follow from the runs, a line each."""
    found = []
    for name in TABLES:
        found += renewed(name, (kept.root / name).read_text(), kept)[1]
    for path, text in made_files(kept).items():
        if not equal(path.read_text(), text):
            found.append(f"{path.relative_to(kept.root)}: is not what the kept runs give")
    if unshown((kept.results / "report.html").read_text(), list(kept.sections.values())):
        found.append("docs/results/report.html: is of other runs; `lim2 paper report --to docs/results` writes it anew")
    if (kept.results / DIGESTS).read_text() != digests(kept):
        found.append(f"docs/results/{DIGESTS}: a file with runs was changed")
    return found


def write(kept: Kept) -> None:
    """Put tables, numbers and digests in anew."""
    for path, text in made_files(kept).items():
        if not equal(path.read_text(), text):
            path.write_text(text)
    (kept.results / DIGESTS).write_text(digests(kept))
    for name in TABLES:
        page = kept.root / name
        page.write_text(renewed(name, page.read_text(), kept)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put in tables and numbers anew")
    kept = Kept()
    if parser.parse_args().write:
        write(kept)
    found = problems(kept)
    for line in found:
        print(line)
    if found:
        raise SystemExit(f"{len(found)} statements do not follow from the kept runs; --write makes what can be made")
    print(f"All statements in {', '.join(TABLES)} follow from the kept runs.")


if __name__ == "__main__":
    main()
