"""
The pages of a hub in a real browser, with boxes that are well, silent, damaged and hostile.

Screenshots of all pages are written to the folder that INTEGRITY_SCREENSHOTS names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect
from tests.hub.pages.conftest import EVIL_SET, fill, fill_hostile

from integrity.hub.database import HubDatabase
from integrity.hub.migrate import migrate
from support.browsing import find_problems, follow_with_keyboard, listen, log_in, open_browser
from support.hub_pages import HubPages
from support.webpage import PASSWORD

pytestmark = pytest.mark.timeout(600)

PLACES = {
    "hub-overview": "/",
    "hub-boxes": "/boxes?sort=health",
    "hub-box": "/boxes/cellar",
    "hub-box-silent": "/boxes/offsite",
    "hub-box-waiting": "/boxes/workshop",
    "hub-sets": "/sets",
    "hub-set": "/sets/photos",
    "hub-findings": "/findings?state=all",
    "hub-finding": "/findings/1",
    "hub-finding-silent": "/findings/2",
    "hub-finding-many": "/findings/3",
    "hub-trees": "/trees",
    "hub-tree": "/trees/archive",
    "hub-audit": "/audit",
}
HOSTILE = {
    "hostile-overview": "/",
    "hostile-boxes": "/boxes",
    "hostile-box": "/boxes/stolen",
    "hostile-sets": "/sets",
    "hostile-set": f"/sets/{quote(EVIL_SET, safe='')}",
    "hostile-findings": "/findings",
    "hostile-finding": "/findings/5",
    "hostile-tree": f"/trees/{quote(EVIL_SET, safe='')}",
    "hostile-audit": "/audit",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Debian's chromium."""
    with open_browser() as started:
        yield started


@pytest.fixture
def database(tmp_path: Path) -> Iterator[HubDatabase]:
    """Return a household of boxes in SQLite: what a browser sees does not depend on the database."""
    made = HubDatabase.open(str(tmp_path / "hub.db"), any_revision=True)
    migrate(made)
    fill(made)
    yield made
    made.close()


@pytest.fixture
def shown(database: HubDatabase, tmp_path: Path) -> Iterator[HubPages]:
    """Serve the pages about it."""
    with HubPages(str(tmp_path / "hub.db"), tmp_path) as served:
        yield served


def test_pages_of_a_hub_fit_and_have_no_barriers(browser: Browser, shown: HubPages) -> None:
    """Nothing sticks out at any width, and axe finds nothing serious."""
    assert [] == find_problems(browser, shown.url, PLACES)


def test_stolen_box_runs_nothing_in_the_browser(browser: Browser, shown: HubPages, database: HubDatabase) -> None:
    """Whatever a box reports, no script runs, nothing is loaded, and nothing sticks out of the window."""
    fill_hostile(database)

    assert [] == find_problems(browser, shown.url, HOSTILE, views=())


def test_pages_of_a_hub_need_no_script(browser: Browser, shown: HubPages) -> None:
    """Every page says all that it says without JavaScript; filters and sorting work, too."""
    tab = browser.new_context(java_script_enabled=False).new_page()
    log_in(tab, shown.url)

    expect(tab.locator("h1")).to_contain_text("Found: 1 damaged file")
    for place in PLACES.values():
        tab.goto(shown.url + place)
        assert tab.inner_text("main").strip()
    tab.goto(f"{shown.url}/boxes")
    tab.select_option("select[name=sort]", "health")
    tab.click("form.filters button")
    expect(tab.locator("tbody th").first).to_have_text("cellar")
    tab.goto(f"{shown.url}/findings/1")
    tab.click("text=Acknowledge")
    expect(tab.locator("h1")).to_have_text("Done")


def test_keyboard_is_enough_for_a_hub(browser: Browser, shown: HubPages) -> None:
    """From the log-in over a box to a finding and its acknowledgment, without a mouse."""
    tab = browser.new_page()
    complaints = listen(tab)
    tab.goto(f"{shown.url}/login")
    tab.keyboard.type(PASSWORD)
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"{shown.url}/")
    follow_with_keyboard(tab, ".card h3 a")
    tab.wait_for_url("**/boxes/cellar")
    follow_with_keyboard(tab, "a[href='/findings/1']")
    tab.wait_for_url("**/findings/1")
    follow_with_keyboard(tab, ".actions button")
    expect(tab.locator("h1")).to_have_text("Done")

    assert [] == complaints
