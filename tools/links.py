"""Check the built site: `python -m tools.links site`. Links lead somewhere, and nothing is fetched from the network.

A link within the site must name a file, and an anchor of it if it has one. Scripts, styles, images and fonts must be
files of the site.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}  # by a browser, at once
LINKED = {"a": "href", "link": "href"}
FETCHED_LINKS = ("stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "manifest")


class Page(HTMLParser):
    """What a page links to, what it fetches, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        known = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := known.get(name))}
        source = known.get(FETCHED.get(tag, ""))
        if source:
            self.fetched.append(source)
        target = known.get(LINKED.get(tag, ""))
        if target and tag == "link" and (known.get("rel") or "") in FETCHED_LINKS:
            self.fetched.append(target)
        elif target:
            self.links.append(target)


def problems(site: Path) -> Iterator[str]:
    """Return what is wrong with a site, a line each."""
    site = site.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(site).as_posix()
        if where == "404.html":  # its links are from the root of a server
            continue
        for target in (*page.links, *page.fetched):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.fetched and parts.scheme != "data":
                    yield f"{where} fetches {target} from the network"
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.is_file() or not file.is_relative_to(site):
                yield f"{where}: there is no {target}"
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors:
                yield f"{where}: {target} has no such anchor"
    for path in sorted(site.rglob("*.css")):
        for target in re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", path.read_text(encoding="utf-8")):
            if urlsplit(target).netloc:
                yield f"{path.relative_to(site)} fetches {target} from the network"
            elif not urlsplit(target).scheme and not (path.parent / target.split("?")[0].split("#")[0]).is_file():
                yield f"{path.relative_to(site)}: there is no {target}"


def main() -> int:
    """Print what is wrong; return the status."""
    found = list(problems(Path(sys.argv[1])))
    print("\n".join(found) or "all links lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
