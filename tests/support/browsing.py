"""Debian's chromium, driven by Playwright, and what each page is checked for in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from support.machine import need_programs
from support.webpage import PASSWORD

_NARROW = 400
_SMALL_TARGETS = """() => [...document.querySelectorAll("a, button, select, summary, input:not([type=hidden])")]
  .filter(one => one.checkVisibility() && !one.closest("svg, .skip"))
  .filter(one => one.tagName !== "A" || one.parentElement.textContent.trim() === one.textContent.trim())
  .filter(one => one.getBoundingClientRect().height < 44)
  .map(one => one.outerHTML.slice(0, 120))"""
"""What a finger misses: lower than 44 px, and no link in a sentence."""

_Views = tuple[tuple[int, Literal["light", "dark"]], ...]
"""Widths of the window, and the colors that the reader prefers."""

_FEW: _Views = (1440, "dark"), (360, "light")
_ALL: _Views = (*_FEW, (1440, "light"))


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start chromium; it ends with the block."""
    need_programs("chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


def find_screenshots(usual: Path) -> Path:
    """Return the folder for screenshots: the one that INTEGRITY_SCREENSHOTS names, or ``usual``."""
    folder = Path(os.environ.get("INTEGRITY_SCREENSHOTS", usual))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def log_in(tab: Page, url: str) -> None:
    """Log in as the owner."""
    tab.goto(f"{url}/login")
    tab.fill("#password", PASSWORD)
    tab.click("main button")
    tab.wait_for_url(f"{url}/")


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


def find_problems(browser: Browser, url: str, places: Mapping[str, str], folder: Path) -> list[str]:
    """Look at pages, by their names; return what is wrong with each (``shoot``), and what the browser complains of."""
    tab = browser.new_context().new_page()
    complaints, problems = listen(tab), []
    log_in(tab, url)
    for name, place in places.items():
        tab.goto(url + place)
        problems += shoot(tab, folder, name, _ALL)
    tab.context.close()
    return problems + [f"console: {text}" for text in complaints]


def shoot(tab: Page, folder: Path, name: str, views: _Views = _FEW) -> list[str]:
    """Take screenshots of a page, narrow and light, wide and dark; return what sticks out, or is a barrier."""
    problems = []
    for width, scheme in views:
        tab.emulate_media(color_scheme=scheme)
        tab.set_viewport_size({"width": width, "height": 900})
        tab.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
        problems += find_barriers(tab, f"{name} at {width}")
    return problems


def find_barriers(tab: Page, name: str) -> list[str]:
    """Say whether a page is wider than the window, what a finger misses on a phone, and what axe finds serious."""
    is_narrow = tab.evaluate("innerWidth") < _NARROW
    small = [f"{name}: too small to touch: {one}" for one in tab.evaluate(_SMALL_TARGETS)] if is_narrow else []
    is_wide = tab.evaluate("document.documentElement.scrollWidth > innerWidth")
    return (
        small
        + [f"{name}: wider than the window"] * is_wide
        + [
            f"{name}: {one['id']}: {[node['html'] for node in one['nodes'][:2]]}"
            for one in Axe().run(tab).response["violations"]
            if one["impact"] in ("serious", "critical")
        ]
    )


def follow_with_keyboard(tab: Page, selector: str) -> None:
    """Move to the first such link with the key Tab alone, and follow it."""
    link = tab.locator(selector).first
    for _ in range(80):
        tab.keyboard.press("Tab")
        if link.evaluate("link => link === document.activeElement"):
            break
    expect(link).to_be_focused()
    tab.keyboard.press("Enter")
