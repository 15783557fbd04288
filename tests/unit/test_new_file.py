"""Files that are written whole or not at all, also if the writer is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from integrity.files.replace_file import find_obstacle, make_partial_name, write_new_file
from support.machine import need_programs

_WRITE = "import sys; from integrity.files.replace_file import write_new_file as write; "
_CALL = "write(sys.argv[1].encode(), b'content', mode=0o640, folder_mode=0o750)"


@pytest.mark.root("strace")
@pytest.mark.parametrize("call", ["write", "fsync", "fchmod", "linkat"])
def test_killed_writer_leaves_nothing(call: str, tmp_path: Path) -> None:
    """Before each of its system calls: neither the file nor a part of it under another name."""
    need_programs("strace")
    place = tmp_path / "made.toml"
    traced = ["strace", "-qq", "-o", "/dev/null", f"--trace-path={tmp_path}", "-e", f"inject={call}:signal=KILL:when=1"]
    if call in ("write", "fsync", "fchmod"):
        traced.remove(f"--trace-path={tmp_path}")
    done = subprocess.run([*traced, sys.executable, "-c", _WRITE + _CALL, place], capture_output=True)

    assert done.returncode != 0
    assert [] == os.listdir(tmp_path)


def test_new_file_has_its_content_and_mode(tmp_path: Path) -> None:
    """Whatever the umask; the folders that it needs are made."""
    place = tmp_path / "a/b/made.toml"
    before = os.umask(0o777)
    try:
        write_new_file(bytes(place), b"content", mode=0o640, folder_mode=0o750)
    finally:
        os.umask(before)

    assert b"content" == place.read_bytes()
    assert [0o750, 0o750, 0o640] == [one.stat().st_mode & 0o7777 for one in (tmp_path / "a", place.parent, place)]


def test_existing_file_is_never_replaced(tmp_path: Path) -> None:
    """Not a file, nor a link that leads nowhere; nothing is left beside it, nor folders of a file that failed."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            write_new_file(bytes(tmp_path / name), b"new", mode=0o640, folder_mode=0o750)
    with pytest.raises(OSError, match="too long"):
        write_new_file(bytes(tmp_path / "a" / ("x" * 300)), b"new", mode=0o640, folder_mode=0o750)

    assert "mine" == (tmp_path / "file").read_text()
    assert ["file", "link"] == sorted(os.listdir(tmp_path))
    assert find_obstacle(bytes(tmp_path / "a/b")) is None
    assert "a file lies in the way" == find_obstacle(bytes(tmp_path / "file/b"))


def test_leftovers_of_killed_writers_are_removed(tmp_path: Path) -> None:
    """Where a file can't be made without a name, the next writer removes them, but nothing that is being written."""
    old, new = tmp_path / ".made.toml.new-01234567", tmp_path / ".made.toml.new-89abcdef"
    for path in (old, new, tmp_path / ".other.new-01234567"):
        path.touch()
    os.utime(old, (time.time() - 3600, time.time() - 3600))
    folder_fd = os.open(tmp_path, os.O_RDONLY)
    name = make_partial_name(folder_fd, b"made.toml")
    os.close(folder_fd)

    assert name.startswith(b".made.toml.new-")
    assert {".made.toml.new-89abcdef", ".other.new-01234567"} == set(os.listdir(tmp_path))
