"""
The page in a real browser.

Screenshots of all pages are written to the folder that INTEGRITY_SCREENSHOTS names, or else to the test's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from tests.web.conftest import Watched

from support.browsing import (
    Scheme,
    find_barriers,
    find_problems,
    find_screenshots,
    follow_with_keyboard,
    listen,
    log_in,
    open_browser,
)
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
}


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Start Debian's chromium."""
    with open_browser() as started:
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_have_no_barriers(browser: Browser, page: WebPage, tmp_path: Path, scheme: Scheme) -> None:
    """Nothing sticks out at any width, no script is refused or runs from a name, axe finds nothing serious."""
    assert [] == find_problems(browser, page.url, PLACES, scheme, find_screenshots(tmp_path))


def test_reading_needs_no_script(browser: Browser, page: WebPage) -> None:
    """Every page says all that it says without JavaScript."""
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    log_in(tab, page.url)

    for place in PLACES.values():
        tab.goto(page.url + place)
        assert tab.inner_text("main").strip()
    tab.goto(page.url)
    expect(tab.locator("h1")).to_contain_text("2 damaged files")
    tab.goto(f"{page.url}/findings")
    tab.select_option("select[name=state]", "all")
    tab.click("form.filters button")
    expect(tab).to_have_url(f"{page.url}/findings?kind=&root=&state=all")


def test_keyboard_is_enough(browser: Browser, page: WebPage) -> None:
    """From the log-in to a finding with the keyboard alone; the first stop of each page skips to its content."""
    tab = browser.new_page()
    tab.goto(f"{page.url}/login")
    expect(tab.locator("input[name=password]")).to_be_focused()
    tab.keyboard.type(PASSWORD)
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"{page.url}/")
    tab.keyboard.press("Tab")
    expect(tab.locator(":focus")).to_have_text("Skip to the content")
    tab.goto(f"{page.url}/findings")
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


def test_log_out_ends_the_session(browser: Browser, page: WebPage) -> None:
    """The button works, and the back button shows nothing."""
    tab = browser.new_page()
    log_in(tab, page.url)
    tab.click("header button")
    tab.wait_for_url(f"{page.url}/login")
    tab.goto(f"{page.url}/findings")

    expect(tab).to_have_url(f"{page.url}/login")


def test_decisions_are_a_click_away(browser: Browser, watched: Watched, tmp_path: Path) -> None:
    """The forms have no barriers, and the page says what came of it and leads back."""
    with WebPage(watched.box, watched.toml, web="actions = true") as page, Service(watched.box):
        tab = browser.new_page(viewport={"width": 360, "height": 900})
        complaints, folder = listen(tab), find_screenshots(tmp_path)

        def shoot(name: str) -> None:
            tab.screenshot(path=folder / f"{name}-360-light.png", full_page=True)

        tab.goto(f"{page.url}/login")
        shoot("login")
        log_in(tab, page.url)
        for name, place in {
            "live": "/",
            "decide": "/findings/1",
            "nothing-decided": "/history",
            "test": "/alerts",
        }.items():
            tab.goto(page.url + place)
            shoot(name)
            assert [] == find_barriers(tab), place
            assert not tab.evaluate("document.documentElement.scrollWidth > innerWidth"), place
        tab.goto(f"{page.url}/findings/1")
        tab.click("text=Acknowledge")
        expect(tab.locator("h1")).to_have_text("Done")
        tab.click("text=Back")
        expect(tab.locator("dl.facts")).to_contain_text("acknowledged")
        tab.click("text=Plan a repair")
        expect(tab.locator("h1")).to_have_text("Plan of the repair")
        shoot("plan")
        tab.fill("#password", PASSWORD)
        tab.click("main button")
        expect(tab.locator("h1")).to_have_text("Done", timeout=60_000)
        shoot("repaired")
        tab.goto(f"{page.url}/history")
        shoot("decided")
        assert [] == complaints
