"""
The page in a real browser: Debian's chromium, driven by Playwright.

Screenshots of all pages are written to the folder that INTEGRITY_SCREENSHOTS names, or else to the test's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from tests.web.conftest import Watched

from support.machine import need_programs
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
WIDTHS = (360, 1440)


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Start Debian's chromium."""
    need_programs("chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


def find_folder(usual: Path) -> Path:
    """Return the folder for screenshots."""
    folder = Path(os.environ.get("INTEGRITY_SCREENSHOTS", usual))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def shoot(tab: Page, folder: Path, name: str) -> list[str]:
    """Take screenshots of a page, narrow and light, wide and dark; return what sticks out, or is a barrier."""
    problems = []
    for width, scheme in ((1440, "dark"), (360, "light")):
        tab.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        tab.set_viewport_size({"width": width, "height": 900})
        tab.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
        problems += find_barriers(tab, f"{name} at {width}")
    return problems


def find_barriers(tab: Page, name: str) -> list[str]:
    """Say whether a page is wider than the window, and what axe finds serious."""
    is_wide = tab.evaluate("document.documentElement.scrollWidth > innerWidth")
    return [f"{name}: wider than the window"] * is_wide + [
        f"{name}: {one['id']}: {[node['html'] for node in one['nodes'][:2]]}"
        for one in Axe().run(tab).response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def log_in(tab: Page, page: WebPage) -> None:
    tab.goto(f"{page.url}/login")
    tab.fill("#password", PASSWORD)
    tab.click("main button")
    tab.wait_for_url(f"{page.url}/")


def listen(tab: Page) -> list[str]:
    """Collect what the browser complains about: errors, refused scripts and styles."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    tab.on("console", note)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    return complaints


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_have_no_barriers(browser: Browser, page: WebPage, tmp_path: Path, scheme: str) -> None:
    """Nothing sticks out at any width, no script is refused or runs from a name, axe finds nothing serious."""
    folder, problems = find_folder(tmp_path), []
    for width in WIDTHS:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        tab = context.new_page()
        complaints = listen(tab)
        log_in(tab, page)
        for name, place in PLACES.items():
            tab.goto(page.url + place)
            tab.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
            problems += find_barriers(tab, f"{name} at {width}")
        problems += [f"console at {width}: {text}" for text in complaints]
        context.close()

    assert [] == problems


def test_reading_needs_no_script(browser: Browser, page: WebPage) -> None:
    """Every page says all that it says without JavaScript."""
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    log_in(tab, page)

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
    link = tab.locator("tbody a").first
    for _ in range(60):
        tab.keyboard.press("Tab")
        if link.evaluate("link => link === document.activeElement"):
            break
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/findings/*")


def test_progress_is_shown_as_it_goes(browser: Browser, watched: Watched) -> None:
    """What the service does appears on an open page without loading it again."""
    with Service(watched.box), WebPage(watched.box, watched.toml) as page:
        context: BrowserContext = browser.new_context()
        tab = context.new_page()
        complaints = listen(tab)
        log_in(tab, page)
        expect(tab.locator("#live")).to_contain_text("Next:")
    expect(tab.locator("#live")).to_contain_text("Next:")
    assert not [text for text in complaints if "Content Security Policy" in text]


def test_log_out_ends_the_session(browser: Browser, page: WebPage) -> None:
    """The button works, and the back button shows nothing."""
    tab = browser.new_page()
    log_in(tab, page)
    tab.click("header button")
    tab.wait_for_url(f"{page.url}/login")
    tab.goto(f"{page.url}/findings")

    expect(tab).to_have_url(f"{page.url}/login")


def test_decisions_are_a_click_away(browser: Browser, watched: Watched, tmp_path: Path) -> None:
    """The forms have no barriers, and the page says what came of it and leads back."""
    with WebPage(watched.box, watched.toml, web="actions = true") as page, Service(watched.box):
        tab, folder = browser.new_page(), find_folder(tmp_path)
        complaints = listen(tab)
        log_in(tab, page)
        problems = []
        for name, place in {
            "live": "/",
            "decide": "/findings/1",
            "nothing-decided": "/history",
            "test": "/alerts",
        }.items():
            tab.goto(page.url + place)
            problems += shoot(tab, folder, name)
        tab.goto(f"{page.url}/findings/1")
        tab.click("text=Acknowledge")
        expect(tab.locator("h1")).to_have_text("Done")
        tab.click("text=Back")
        expect(tab.locator("dl.facts")).to_contain_text("acknowledged")
        tab.click("text=Accept the file as it is now")
        problems += shoot(tab, folder, "accept")
        tab.click("text=Plan a repair")
        expect(tab.locator("h1")).to_have_text("Plan of the repair")
        problems += shoot(tab, folder, "plan")
        tab.fill("#password", PASSWORD)
        tab.click("main form button")
        expect(tab.locator("h1")).to_have_text("Done", timeout=60_000)
        problems += shoot(tab, folder, "repaired")
        for name, place in {"decided": "/history", "resolved": "/findings/1", "all": "/findings?state=all"}.items():
            tab.goto(page.url + place)
            problems += shoot(tab, folder, name)
        assert [] == complaints + problems


def test_first_visit_and_errors_have_no_barriers(browser: Browser, watched: Watched, tmp_path: Path) -> None:
    """The link that sets the password, a wrong password, a page that does not exist, a catalog that is gone."""
    folder, problems = find_folder(tmp_path), []
    with WebPage(watched.box, watched.toml, has_password=False) as page:
        tab = browser.new_page()
        tab.goto(f"{page.url}/login")
        problems += shoot(tab, folder, "no-password")
        tab.goto(page.url + page.link)
        problems += shoot(tab, folder, "welcome")
        tab.fill("#password", PASSWORD)
        tab.fill("#again", "something else")
        tab.click("main button")
        problems += shoot(tab, folder, "welcome-again")
        tab.fill("#password", PASSWORD)
        tab.fill("#again", PASSWORD)
        tab.click("main button")
        expect(tab.locator("h1")).to_contain_text("2 damaged files")
        tab.goto(f"{page.url}/no/such/page")
        problems += shoot(tab, folder, "no-such-page")
        watched.box.catalog.rename(tmp_path / "away")
        tab.goto(f"{page.url}/findings")
        problems += shoot(tab, folder, "no-catalog")
        tab.click("header button")
        tab.fill("#password", "a guess")
        tab.click("main button")
        problems += shoot(tab, folder, "wrong-password")
    assert [] == problems
