"""
Make the picture of the README: the page of a NAS with one damaged photo, as chromium shows it.

Run it as root, in mounts and under a host name of its own, which end with it:

    cd tests && unshare --mount --uts python -m support.readme_picture
"""

from __future__ import annotations

import random
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

PICTURE = ROOT / "docs/page.png"
_PHOTOS, _BACKUP = Path("/srv/photos"), Path("/mnt/backup/photos")
_PHOTO_BYTES = 3 << 20
_TOML = """
[[root]]
path = "/srv/photos"
policy = "archive"

[[copy]]
name = "nightly"
of = "/srv/photos"
url = "/mnt/backup/photos"

"""


def read_version(picture: Path) -> str:
    """Return the version of the page that a picture shows."""
    with Image.open(picture) as image:
        return str(image.info["version"])


def make_picture(home: Path, disk: LoopFS) -> None:
    """Record and back up photos, flip a bit of one below the file system, and show the page of it."""
    box, source = Box(home / "box"), random.Random(1)
    sh("mount", "--bind", disk.folder, "/srv")
    for number in range(24):
        photo = _PHOTOS / f"{2018 + number // 6}" / f"img_{number:04}.jpg"
        photo.parent.mkdir(parents=True, exist_ok=True)
        photo.write_bytes(source.randbytes(_PHOTO_BYTES))
    _BACKUP.parent.mkdir()
    back_up(_PHOTOS, _BACKUP)
    box.configure(_TOML)
    box.run("scan", _PHOTOS, expect=0)
    box.run("scrub", _PHOTOS, expect=0)
    rot(_PHOTOS / "2019/img_0007.jpg", 1 << 20)
    box.run("scrub", _PHOTOS, expect=1)
    box.run("compare", _PHOTOS, "--with", "nightly", expect=1)
    with WebPage(box, _TOML) as page, Service(box), open_browser() as browser:
        tab = browser.new_page(viewport={"width": 1180, "height": 700})
        log_in(tab, page.url)
        tab.get_by_text("Next:").wait_for()
        version = tab.inner_text("footer").split()[1]
        tab.screenshot(path=home / "page.png", full_page=True)
    facts = PngInfo()
    facts.add_text("version", version)
    with Image.open(home / "page.png") as image:
        image.save(PICTURE, optimize=True, pnginfo=facts)


def main() -> None:
    """Make it where nothing else of this machine is seen."""
    socket.sethostname("nas")
    sh("mount", "-t", "tmpfs", "tmpfs", "/mnt")
    with tempfile.TemporaryDirectory() as home, LoopFS("ext4", size_bytes=256 << 20) as disk:
        try:
            make_picture(Path(home), disk)
        finally:
            sh("umount", "/srv")


if __name__ == "__main__":
    main()
