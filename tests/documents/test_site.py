"""The site is built from README and docs/, and every link in it leads somewhere: to a page, to a heading on it, or to a file."""

import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.documents.page import ROOT

SITE = ROOT / ".cache" / "site" / "html"


class Links(HTMLParser):
    """The links and the headings of one page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        if tag == "a" and (target := given.get("href")):
            self.targets.append(target)


@pytest.fixture(scope="module")
def site() -> Path:
    built = subprocess.run([ROOT / "scripts" / "site"], capture_output=True, text=True, timeout=500, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return SITE


def test_every_link_leads_somewhere(site: Path) -> None:
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert site / "index.html" in pages
    assert len(pages) > 40
    broken = [
        f"{page.relative_to(site)}: {target}"
        for page, links in pages.items()
        for target in links.targets
        if not urlsplit(target).scheme and not leads_somewhere(page, target, pages)
    ]
    assert broken == []


def leads_somewhere(page: Path, target: str, pages: dict[Path, Links]) -> bool:
    path, fragment = urldefrag(target)
    place = (page.parent / unquote(path)).resolve() if path else page
    place = place / "index.html" if place.is_dir() and (place / "index.html").exists() else place
    return place.exists() and (not fragment or place not in pages or fragment in pages[place].ids)
