"""
The manual as a site: ``pip install --group docs . && sphinx-build -W -c packaging/site docs FOLDER``.

The man pages are added as HTML where mandoc is installed. Nothing is fetched from a network.
"""

import html
import shutil
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx

from integrity import __version__

project, release = "integrity", __version__
author = "the integrity authors"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = f"integrity {release}"
myst_heading_anchors = 3
nitpicky = True
exclude_patterns = ["__pycache__"]


def add_man_pages(app: Sphinx, error: Exception | None) -> None:
    """Write the man pages of the installed program as HTML, and a list of them."""
    if error is not None or shutil.which("mandoc") is None:
        return
    folder = Path(app.outdir, "man")
    subprocess.run([sys.executable, "-m", "integrity", "manual", "--man-pages", folder], check=True)
    pages = sorted(folder.glob("man?/*"), key=lambda page: page.name)
    for page in pages:
        made = subprocess.run(["mandoc", "-T", "html", page], stdout=subprocess.PIPE, check=True)
        (folder / f"{page.name}.html").write_bytes(made.stdout)
    for section in folder.glob("man?"):
        shutil.rmtree(section)
    items = "".join(f'<li><a href="{html.escape(page.name)}.html">{html.escape(page.name)}</a></li>' for page in pages)
    (folder / "index.html").write_text(f"<!DOCTYPE html><title>man pages</title><ul>{items}</ul>", encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("build-finished", add_man_pages)
