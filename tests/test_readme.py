"""README tells the truth: its tables are those of the results, its links lead somewhere, also from PyPI."""

import re
import tomllib

from helpers.kept import with_results
from helpers.pages import ROOT, blocks

from benchmarks.readme import PAGES, README, SPEED_PAGE, filled, speed_page

TEXT = README.read_text()
HOME = "https://github.com/lim2/lim2/"
BADGES = r"/actions/workflows/|img\.shields\.io"
RAW = "https://raw.githubusercontent.com/lim2/lim2/main/"


@with_results
def test_tables_are_those_of_the_results() -> None:
    for page, parts in PAGES.items():
        assert page.read_text() == filled(page.read_text(), parts), f"{page.name}: run `python -m benchmarks.readme`"
    assert SPEED_PAGE.read_text() == speed_page(), "run `python -m benchmarks.readme`"


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 100


def test_links_and_images_are_absolute_and_lead_to_files() -> None:
    """PyPI shows README without the repository around it."""
    targets = [target for target in re.findall(r"\]\((\S+?)\)", TEXT) if not re.search(BADGES, target)]
    assert len(targets) > 10
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    for target in targets:
        path = re.sub(r"^(blob|tree)/main/", "", target.removeprefix(HOME).removeprefix(RAW))
        assert target.startswith((HOME, RAW)), target
        assert (ROOT / path).exists(), f"{target}: there is no {path}"


def test_the_address_is_that_of_the_package() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
    assert urls.get("Source", HOME).rstrip("/") == HOME.rstrip("/")


def test_it_begins_with_something_that_prints() -> None:
    """tests/test_docs.py runs it."""
    first = blocks(README, "python")[0]
    assert first.language == "python"
    assert "print(" in first.text


def test_the_two_commands_of_a_fresh_machine() -> None:
    assert "make demo" in TEXT
    assert "make test" in TEXT
