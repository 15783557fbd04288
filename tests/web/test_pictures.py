"""Both sides of a finding as pictures: served by the service's hand, to a session, and nothing else ever."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.browsing import listen, log_in, look, open_browser
from support.cli import Box
from support.service import Service
from support.webpage import WebPage

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

WIDTH, HEIGHT = 480, 320
HUGE_BYTES = (16 << 20) + 4096
NEVER = '[schedule]\nscrub = "0 0 29 feb *"\n'
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def draw(shade: int, size_bytes: int = 0) -> bytes:
    """Make a picture (BMP) of a sky."""
    rows = (bytes((160 - y // 3, shade * y // HEIGHT, 255 * x // WIDTH)) for y in range(HEIGHT) for x in range(WIDTH))
    pixels = b"".join(rows)
    header = b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54)
    header += struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    return (header + pixels).ljust(size_bytes, b"\0")


class Album(NamedTuple):
    """A recorded folder and its copy, with a finding for most files."""

    box: Box
    folder: Path
    copy: Path
    toml: str

    def find_number(self, name: str) -> int:
        """Return the number of the finding about a file."""
        return next(int(one["id"]) for one in self.box.findings("findings") if one["path"].endswith(f"/{name}"))


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Write into a file, and put its time back."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Album:
    """Damage some files here, and others in the copy."""
    place = tmp_path_factory.mktemp("album")
    folder, box = place / "photos", Box(place / "home")
    folder.mkdir()
    for shade, name in enumerate(("sea.bmp", "sky.bmp", "well.bmp", "head.bmp"), 1):
        (folder / name).write_bytes(draw(shade * 60))
    (folder / "huge.bmp").write_bytes(draw(250, HUGE_BYTES))
    (folder / "notes.txt").write_bytes(b"notes " * 1000)
    (folder / "drawing.svg").write_bytes(SVG)
    (folder / "gone.bmp").write_bytes(draw(7))
    (folder / "page.jpg").write_bytes(b"<html><script>alert(1)</script></html>" * 50)
    copy = Path(shutil.copytree(folder, place / "backup"))
    toml = f'[[root]]\npath = "{folder}"\n[[copy]]\nname = "nightly"\nof = "{folder}"\nurl = "{copy}"\n{NEVER}'
    box.configure(toml)
    box.run("scan", folder, expect=0)
    overwrite(folder / "sea.bmp", 200_192, bytes(65_536))
    overwrite(folder / "head.bmp", 0, b"XYZ")
    box.run("scrub", folder, expect=1)
    overwrite(copy / "sky.bmp", 196_608, b"\xff" * 32_768)
    for name in ("huge.bmp", "notes.txt", "drawing.svg", "page.jpg"):
        overwrite(copy / name, 40, b"x")
    (copy / "gone.bmp").unlink()
    box.run("compare", "--with", "nightly", expect=1)
    return Album(box, folder, copy, toml)


@pytest.fixture(scope="module")
def page(album: Album) -> Iterator[WebPage]:
    """Serve the page about it, and run the service."""
    with WebPage(album.box, album.toml) as served, Service(album.box):
        yield served


@pytest.mark.parametrize("name", ["sea.bmp", "sky.bmp"])
def test_both_sides_are_served(album: Album, page: WebPage, name: str) -> None:
    """Of a damaged file with a copy, and of a damaged copy: the bytes of each, with headers that leave no room."""
    owner, number = page.visitor(), album.find_number(name)

    assert f"/findings/{number}/pictures/file" in owner.get(f"/findings/{number}").text
    for side, path in (("file", album.folder / name), ("copy", album.copy / name)):
        reply = owner.get(f"/findings/{number}/pictures/{side}")
        assert (200, "image/bmp") == (reply.status, reply.headers["Content-Type"])
        assert path.read_bytes() == reply.body
        assert ("nosniff", "no-store") == (reply.headers["X-Content-Type-Options"], reply.headers["Cache-Control"])
        assert "default-src 'none'; sandbox" == reply.headers["Content-Security-Policy"]
        assert "same-origin" == reply.headers["Cross-Origin-Resource-Policy"]


def test_damaged_beginning_of_a_picture(album: Album, page: WebPage) -> None:
    """A file whose first bytes are damaged is no picture any more; its copy is shown beside that."""
    owner, number = page.visitor(), album.find_number("head.bmp")

    text = owner.get(f"/findings/{number}").text
    assert "Can't be shown as a picture: its content is no picture</p><figcaption>Your file" in text
    assert f"/findings/{number}/pictures/copy" in text
    assert 404 == owner.get(f"/findings/{number}/pictures/file").status
    assert 200 == owner.get(f"/findings/{number}/pictures/copy").status


@pytest.mark.parametrize("name", ["notes.txt", "drawing.svg", "page.jpg", "huge.bmp"])
def test_what_is_no_picture_is_never_served(album: Album, page: WebPage, name: str) -> None:
    """Neither text, SVG, nor a page with the name of a picture; and no picture that is too large."""
    owner, number = page.visitor(), album.find_number(name)

    for side in ("file", "copy"):
        reply = owner.get(f"/findings/{number}/pictures/{side}")
        assert (404, "text/html; charset=utf-8") == (reply.status, reply.headers["Content-Type"])
        assert b"alert(1)" not in reply.body
    text = owner.get(f"/findings/{number}").text
    assert f"/findings/{number}/pictures/" not in text
    assert (name == "huge.bmp") == ("Can't be shown as pictures: larger than 16 MiB" in text)


def test_file_without_a_copy_has_no_two_sides(album: Album, page: WebPage) -> None:
    """What the backup lacks can't be shown, so neither is shown."""
    owner, number = page.visitor(), album.find_number("gone.bmp")

    assert "Both sides" not in owner.get(f"/findings/{number}").text
    assert 404 == owner.get(f"/findings/{number}/pictures/file").status


def test_other_sides_and_other_files(album: Album, page: WebPage) -> None:
    """A URL names a finding and a side; there is no way to a path, a file without finding, or a resolved one."""
    owner, number = page.visitor(), album.find_number("sky.bmp")
    tried = [
        *(f"/findings/{number}/pictures/{side}" for side in ("", "other", "FILE", "..", "%2e%2e")),
        *(
            f"/findings/{number}/pictures/{path}"
            for path in ("../../well.bmp", "..%2f..%2fwell.bmp", "%2fetc%2fpasswd")
        ),
        *(f"/findings/{other}/pictures/file" for other in (0, 999, 10**17, 10**18, "-1", "x", f"{number}.0")),
        f"/findings/{number}/pictures/file?path=/etc/passwd&side=copy",
    ]

    answers = {path: owner.get(path) for path in tried}

    *others, query = answers.values()
    assert {404} == {one.status for one in others}
    assert 400 == owner.get(f"/findings/{number}/pictures/file%00").status
    assert (album.folder / "sky.bmp").read_bytes() == query.body  # what stands behind it counts for nothing


@pytest.mark.long
def test_nobody_without_a_session_gets_one(album: Album, page: WebPage) -> None:
    """A stranger is led to the log-in; other methods and other host names are refused."""
    number = album.find_number("sky.bmp")
    place = f"/findings/{number}/pictures/file"

    reply = page.client().get(place, Authorization="Bearer anything")
    assert (303, "/login", b"") == (reply.status, reply.headers["Location"], reply.body)
    owner = page.visitor()
    assert 421 == owner.get(place, Host="evil.example").status
    assert 405 == owner.post(place, {"csrf": owner.find_token()}).status


def test_link_out_of_the_folder_is_not_followed(album: Album, page: WebPage) -> None:
    """A file that was replaced by a symbolic link to a picture elsewhere is not read, on either side."""
    owner, number = page.visitor(), album.find_number("sky.bmp")
    secret = album.folder.parent / "secret.bmp"
    secret.write_bytes(draw(9))
    for side, folder in (("file", album.folder), ("copy", album.copy)):
        kept = (folder / "sky.bmp").rename(folder / "kept")
        (folder / "sky.bmp").symlink_to(secret)
        try:
            assert 404 == owner.get(f"/findings/{number}/pictures/{side}").status
        finally:
            kept.replace(folder / "sky.bmp")


def test_side_that_is_gone(album: Album, page: WebPage) -> None:
    """A picture that can't be read is not served, and its page says so in a line."""
    owner, number = page.visitor(), album.find_number("sky.bmp")
    kept = (album.folder / "sky.bmp").rename(album.folder / "kept")
    try:
        assert 404 == owner.get(f"/findings/{number}/pictures/file").status
        assert "Can't be shown as a picture: cannot open" in owner.get(f"/findings/{number}").text
    finally:
        kept.replace(album.folder / "sky.bmp")


@pytest.mark.long
def test_browser_shows_both(album: Album, page: WebPage, tmp_path: Path) -> None:
    """Chromium draws both beside each other, without a complaint, at any width; opened alone, one is no page."""
    with open_browser() as browser:
        tab = browser.new_page()
        complaints = listen(tab)
        log_in(tab, page.url)
        for name in ("sea.bmp", "sky.bmp"):
            tab.goto(f"{page.url}/findings/{album.find_number(name)}")
            tab.wait_for_load_state("networkidle")
            sizes = tab.evaluate("[...document.querySelectorAll('.sides img')].map(one => one.naturalWidth)")
            assert [WIDTH, WIDTH] == sizes
            assert [] == look(tab, f"pictures-{name}")
        assert [] == complaints
        tab.goto(f"{page.url}/findings/{album.find_number('sky.bmp')}/pictures/copy")
        assert "image/bmp" == tab.evaluate("document.contentType")


def test_without_the_service_a_line_says_so(album: Album, tmp_path: Path) -> None:
    """The page can't read files itself; of what is no picture it says nothing."""
    other = Box(tmp_path / "home")  # with the same catalog, which no service serves
    album.box.run("catalog", "backup", tmp_path / "backups", expect=0)
    (backup,) = (tmp_path / "backups").iterdir()
    other.catalog.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(backup, other.catalog)
    with WebPage(other, album.toml) as page:
        owner, number = page.visitor(), album.find_number("sky.bmp")

        assert "Can't be shown as pictures: the service does not run" in owner.get(f"/findings/{number}").text
        assert 404 == owner.get(f"/findings/{number}/pictures/file").status
        assert "Both sides" not in owner.get(f"/findings/{album.find_number('notes.txt')}").text
