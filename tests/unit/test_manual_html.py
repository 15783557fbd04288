"""The manual as HTML: its links lead somewhere, and nothing in it but Markdown becomes markup."""

from __future__ import annotations

import re

import pytest

from integrity.views.manual import find_manual_pages
from integrity.web.pages.manual import write_manual_page

PAGES = find_manual_pages()


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_pages_and_headings(name: str) -> None:
    """Each link within the manual leads to a page, and to a heading of it; nothing is loaded."""
    html = write_manual_page(PAGES[name].read_text(encoding="utf-8"), PAGES)

    assert [] == re.findall(r"<(?:img|script|link)|&lt;!--|toctree", html)
    for link in re.findall(r'href="([^"]*)"', html):
        place, _, anchor = link.partition("#")
        target = place.removeprefix("/manual").removeprefix("/") or (name if not place else "")
        assert "://" in link or place == "/manual" or target in PAGES, link
        if anchor and "://" not in link:
            assert f'id="{anchor}"' in write_manual_page(PAGES[target].read_text(encoding="utf-8"), PAGES), link


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[x](rot.md)", '<p><a href="/manual/rot">x</a></p>\n'),
        ("[x](../findings/rot.md#in-short)", '<p><a href="/manual/rot#in-short">x</a></p>\n'),
        ("[what](findings/index.md)", '<p><a href="/manual">what</a></p>\n'),
        ("[`x`](../CHANGELOG.md)", "<p><code>x</code></p>\n"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>\n"),
        ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"),
        ("<!-- for\ntests -->\nx", "<p>x</p>\n"),
        ("```{toctree}\n*\n```\nx", "<p>x</p>\n"),
        ("## In `--json`, short", '<h2 id="in---json-short">In <code>--json</code>, short</h2>\n'),
    ],
)
def test_markdown_becomes_html(text: str, expected: str) -> None:
    """Links to what is not served become text; other markup is shown as text; comments are left out."""
    assert expected == write_manual_page(text, PAGES)
