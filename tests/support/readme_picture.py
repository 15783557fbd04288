"""
Make the pictures of the documents: the page of a NAS with one damaged photo, and what its backups have of that.

Run it as root, in mounts and under a host name of its own, which end with it:

    cd tests && unshare --mount --uts python -m support.readme_picture
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from support.bitrot import rot
from support.browsing import log_in, open_browser
from support.cli import Box
from support.comparing import back_up
from support.generated import ROOT
from support.loopfs import LoopFS
from support.programs import sh
from support.service import Service
from support.webpage import WebPage

PICTURE, VERSIONS = ROOT / "docs/page.png", ROOT / "docs/versions.png"
_PHOTOS, _BACKUP, _DAYS = Path("/srv/photos"), Path("/mnt/backup/photos"), Path("/mnt/backup/days")
_GOOD_DAYS, _BAD_DAYS = range(2, 16), range(16, 20)
_PHOTO_BYTES, _ROTTEN = 3 << 20, "2019/img_0007.jpg"
_TOML = """
[[root]]
path = "/srv/photos"
policy = "archive"

[[copy]]
name = "nightly"
of = "/srv/photos"
url = "/mnt/backup/photos"

"""
_DAYS_TOML = """
[[copy]]
name = "days"
of = "/srv/photos"
url = "snapshots:/mnt/backup/days/*"

"""


def read_version(picture: Path) -> str:
    """Return the version of the page that a picture shows."""
    with Image.open(picture) as image:
        return str(image.info["version"])


def make_pictures(home: Path, disk: LoopFS) -> None:
    """Record and back up photos, flip a bit of one below the file system, and show the page of it."""
    box, source = Box(home / "box"), random.Random(1)
    sh("mount", "--bind", disk.folder, "/srv")
    for number in range(24):
        photo = _PHOTOS / f"{2018 + number // 6}" / f"img_{number:04}.jpg"
        photo.parent.mkdir(parents=True, exist_ok=True)
        photo.write_bytes(source.randbytes(_PHOTO_BYTES))
    _DAYS.mkdir(parents=True)
    back_up(_PHOTOS, _BACKUP)
    for day in _GOOD_DAYS:
        shutil.copytree(_BACKUP, _DAYS / f"2026-11-{day:02}", copy_function=os.link)
    box.configure(_TOML)
    box.run("scan", _PHOTOS, expect=0)
    box.run("scrub", _PHOTOS, expect=0)
    rot(_PHOTOS / _ROTTEN, 1 << 20)
    for day in _BAD_DAYS:
        folder = _DAYS / f"2026-11-{day:02}"
        shutil.copytree(_BACKUP, folder, copy_function=os.link)
        (folder / _ROTTEN).unlink()
        shutil.copy2(_PHOTOS / _ROTTEN, folder / _ROTTEN)
    box.run("scrub", _PHOTOS, expect=1)
    box.run("compare", _PHOTOS, "--with", "nightly", expect=1)
    show(box, _TOML, "/", home / "page.png", PICTURE)
    box.configure(_TOML + _DAYS_TOML)
    box.run("compare", _PHOTOS, "--with", "days", "--read", expect=1)
    [finding] = [one for one in box.findings("findings") if one["kind"] == "rot"]
    show(box, _TOML + _DAYS_TOML, f"/findings/{finding['id']}", home / "page.png", VERSIONS)


def show(box: Box, toml: str, place: str, raw: Path, picture: Path) -> None:
    """Save a page as a picture; ``raw``: a file for what chromium writes."""
    with WebPage(box, toml) as page, Service(box), open_browser() as browser:
        tab = browser.new_page(viewport={"width": 1180, "height": 700})
        log_in(tab, page.url)
        tab.get_by_text("Next:").wait_for()
        facts = PngInfo()
        facts.add_text("version", tab.inner_text("footer").split()[1])
        tab.goto(page.url + place)
        tab.screenshot(path=raw, full_page=True)
    with Image.open(raw) as image:
        image.save(picture, optimize=True, pnginfo=facts)


def main() -> None:
    """Make it where nothing else of this machine is seen."""
    socket.sethostname("nas")
    sh("mount", "-t", "tmpfs", "tmpfs", "/mnt")
    with tempfile.TemporaryDirectory() as home, LoopFS("ext4", size_bytes=256 << 20) as disk:
        try:
            make_pictures(Path(home), disk)
        finally:
            sh("umount", "/srv")


if __name__ == "__main__":
    main()
