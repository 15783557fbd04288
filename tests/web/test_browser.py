"""
The page in a real browser.

Screenshots of all pages are written to the folder that INTEGRITY_SCREENSHOTS names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from tests.web.conftest import Watched, lose_album

from support.browsing import (
    find_problems,
    follow_with_keyboard,
    listen,
    log_in,
    look,
    open_browser,
)
from support.cli import Box
from support.service import Service
from support.webpage import PASSWORD, WebPage

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

PLACES = {
    "overview": "/",
    "findings": "/findings",
    "finding": "/findings/1",
    "folder": "/browse/1",
    "file": "/browse/1/2019/b.jpg",
    "runs": "/runs",
    "run": "/runs/1",
    "copies": "/copies",
    "alerts": "/alerts",
    "history": "/history",
    "settings": "/settings",
    "manual": "/manual",
    "manual-page": "/manual/rot",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Debian's chromium."""
    with open_browser() as started:
        yield started


def test_pages_fit_and_have_no_barriers(browser: Browser, lasting_page: WebPage) -> None:
    """Nothing sticks out at any width, no script is refused or runs from a name, axe finds nothing serious."""
    assert [] == find_problems(browser, lasting_page.url, PLACES)


def test_reading_needs_no_script(browser: Browser, lasting_page: WebPage) -> None:
    """Every page says all that it says without JavaScript."""
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    log_in(tab, lasting_page.url)

    for place in PLACES.values():
        tab.goto(lasting_page.url + place)
        assert tab.inner_text("main").strip()
        expect(tab.locator("button.copy:visible")).to_have_count(0)
    tab.set_viewport_size({"width": 390, "height": 800})
    tab.click("text=Menu")
    tab.click("details.menu >> text=Copies")
    expect(tab.locator("h1")).to_have_text("Backup copies")
    tab.goto(lasting_page.url)
    expect(tab.locator("h1")).to_contain_text("2 damaged files")
    tab.goto(f"{lasting_page.url}/findings")
    tab.click("text=Choose which")
    tab.select_option("select[name=state]", "all")
    tab.click("form.filters button")
    expect(tab).to_have_url(f"{lasting_page.url}/findings?kind=&root=&state=all")


def test_command_is_copied_whole(browser: Browser, lasting_page: WebPage, lasting: Watched) -> None:
    """With the button beside it: what the clipboard has can be typed, and the button says so."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    log_in(tab, lasting_page.url)
    tab.goto(f"{lasting_page.url}/browse/1/2019/b.jpg")
    tab.locator("button.copy").last.click()

    expect(tab.locator("button.copy").last).to_have_text("Copied")
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert f"{lasting.box.program} explain {lasting.folder}/2019/b.jpg" == copied


def test_command_is_copied_without_a_secure_connection(browser: Browser, lasting_page: WebPage) -> None:
    """Browsers give their clipboard to pages by HTTPS only: behind a proxy without it the old way is used."""
    tab = browser.new_page()
    tab.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    log_in(tab, lasting_page.url)
    tab.goto(f"{lasting_page.url}/findings/1")
    tab.locator("button.copy").first.click()

    expect(tab.locator("button.copy").first).to_have_text("Copied")


def test_keyboard_is_enough(browser: Browser, lasting_page: WebPage) -> None:
    """From the log-in to a finding with the keyboard alone; the first stop of each page skips to its content."""
    tab = browser.new_page()
    tab.goto(f"{lasting_page.url}/login")
    expect(tab.locator("input[name=password]")).to_be_focused()
    tab.keyboard.type(PASSWORD)
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"{lasting_page.url}/")
    tab.keyboard.press("Tab")
    expect(tab.locator(":focus")).to_have_text("Skip to the content")
    tab.goto(f"{lasting_page.url}/findings")
    follow_with_keyboard(tab, "tbody a")
    tab.wait_for_url("**/findings/*")


def test_progress_is_shown_as_it_goes(browser: Browser, watched: Watched) -> None:
    """What the service does appears on an open page without loading it again."""
    with Service(watched.box), WebPage(watched.box, watched.toml) as page:
        context: BrowserContext = browser.new_context()
        tab = context.new_page()
        complaints = listen(tab)
        log_in(tab, page.url)
        expect(tab.locator("#live")).to_contain_text("Next:")
    expect(tab.locator("#live")).to_contain_text("Next:")
    assert not [text for text in complaints if "Content Security Policy" in text]


def test_log_out_ends_the_session(browser: Browser, lasting_page: WebPage) -> None:
    """The button works, and the back button shows nothing."""
    tab = browser.new_page()
    log_in(tab, lasting_page.url)
    tab.click("header .wide button")
    tab.wait_for_url(f"{lasting_page.url}/login")
    tab.goto(f"{lasting_page.url}/findings")

    expect(tab).to_have_url(f"{lasting_page.url}/login")


def test_decisions_are_a_click_away(browser: Browser, watched: Watched) -> None:
    """The forms have no barriers, and the page says what came of it and leads back."""
    with WebPage(watched.box, watched.toml, web="actions = true") as page, Service(watched.box):
        tab = browser.new_page()
        complaints, problems = listen(tab), []
        log_in(tab, page.url)
        for name, place in {"live": "/", "nothing-decided": "/history"}.items():
            tab.goto(page.url + place)
            problems += look(tab, name, views=())  # what they consist of is on other pages
        for name, place in {"test": "/alerts", "decide": "/findings/1"}.items():
            tab.goto(page.url + place)
            problems += look(tab, name)
        tab.click("text=Acknowledge")
        expect(tab.locator("h1")).to_have_text("Done")
        tab.click("text=Back")
        expect(tab.locator("dl.facts")).to_contain_text("acknowledged")
        tab.click("text=Accept the file as it is now")
        problems += look(tab, "accept")
        tab.click("text=Plan a repair")
        expect(tab.locator("h1")).to_have_text("Plan of the repair")
        problems += look(tab, "plan")
        tab.fill("#password", PASSWORD)
        tab.click("main form button")
        expect(tab.locator("h1")).to_have_text("Done", timeout=60_000)
        problems += look(tab, "repaired")
        for name, place in {"decided": "/history", "resolved": "/findings/1", "all": "/findings?state=all"}.items():
            tab.goto(page.url + place)
            problems += look(tab, name, views=())
        assert [] == complaints + problems


def test_first_visit_and_errors_have_no_barriers(browser: Browser, watched: Watched, tmp_path: Path) -> None:
    """The link that sets the password, a wrong password, a page that does not exist, a catalog that is gone."""
    problems = []
    with WebPage(watched.box, watched.toml, has_password=False) as page:
        tab = browser.new_page()
        tab.goto(f"{page.url}/login")
        problems += look(tab, "no-password")
        tab.goto(page.url + page.link)
        problems += look(tab, "welcome")
        tab.fill("#password", PASSWORD)
        tab.fill("#again", "something else")
        tab.click("main button")
        problems += look(tab, "welcome-again", views=())
        tab.fill("#password", PASSWORD)
        tab.fill("#again", PASSWORD)
        tab.click("main button")
        expect(tab.locator("h1")).to_contain_text("2 damaged files")
        tab.goto(f"{page.url}/no/such/page")
        problems += look(tab, "no-such-page")
        watched.box.catalog.rename(tmp_path / "away")
        tab.goto(f"{page.url}/findings")
        problems += look(tab, "no-catalog")
        tab.click("details.menu summary")
        tab.click("details.menu button")
        tab.fill("#password", "a guess")
        tab.click("main button")
        problems += look(tab, "wrong-password")
    assert [] == problems


def test_many_files_of_one_folder_fit(browser: Browser, integrity: Box, tmp_path: Path) -> None:
    """Their row is one, opens without sticking out, and has a command to copy."""
    album = tmp_path / "photos" / "Album with a name that is longer than a phone is wide, as they are"
    toml = lose_album(integrity, album)

    with WebPage(integrity, toml) as page:
        tab = browser.new_context().new_page()
        log_in(tab, page.url)
        tab.goto(f"{page.url}/findings")
        tab.click("text=One by one")
        expect(tab.locator("td.path li a:visible")).to_have_count(9)
        assert [] == look(tab, "many")
