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

_IS_LAID_OUT = "width => innerWidth === width && matchMedia(`(width: ${width}px)`).matches"
"""A window is made narrower by another process than the one that answers."""

_Views = tuple[tuple[int, Literal["light", "dark"]], ...]
"""Widths of the window, and the colors that the reader prefers."""

_VIEWS: _Views = (1440, "dark"), (360, "light")


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


def find_problems(browser: Browser, url: str, places: Mapping[str, str], *, views: _Views = _VIEWS) -> list[str]:
    """
    Look at pages, by their names; return what is wrong with each, and what the browser complains of.

    Colors and parts of pages are the same on many of them: axe looks at each page in one of the views.
    """
    tab = browser.new_context().new_page()
    complaints, problems = listen(tab), []
    log_in(tab, url)
    for number, (name, place) in enumerate(places.items()):
        tab.goto(url + place)
        problems += look(tab, name, views[number % 2 :][:1])
    tab.context.close()
    return problems + [f"console: {text}" for text in complaints]


def look(tab: Page, name: str, views: _Views = _VIEWS[1:]) -> list[str]:
    """
    Look at a page, narrow and light, wide and dark; write screenshots to the folder that INTEGRITY_SCREENSHOTS names.

    Returns:
        what is wider than the window, what a finger misses on a phone, and what axe finds serious in some views.
    """
    problems = []
    for view in _VIEWS:
        width, scheme = view
        tab.emulate_media(color_scheme=scheme)
        tab.set_viewport_size({"width": width, "height": 900})
        tab.wait_for_function(_IS_LAID_OUT, arg=width)
        if folder := os.environ.get("INTEGRITY_SCREENSHOTS"):
            tab.screenshot(path=Path(folder, f"{name}-{width}-{scheme}.png"), full_page=True)
        if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
            problems.append(f"{name} at {width}: wider than the window")
        if width < _NARROW:
            problems += [f"{name}: too small to touch: {one}" for one in tab.evaluate(_SMALL_TARGETS)]
        if view in views:
            problems += [
                f"{name} at {width}: {one['id']}: {[node['html'] for node in one['nodes'][:2]]}"
                for one in Axe().run(tab).response["violations"]
                if one["impact"] in ("serious", "critical")
            ]
    return problems


def follow_with_keyboard(tab: Page, selector: str) -> None:
    """Move to the first such link with the key Tab alone, and follow it."""
    link = tab.locator(selector).first
    for _ in range(80):
        tab.keyboard.press("Tab")
        if link.evaluate("link => link === document.activeElement"):
            break
    expect(link).to_be_focused()
    tab.keyboard.press("Enter")
