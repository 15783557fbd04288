"""Hostile files cost their own result, bounded time and memory, and nothing else."""

from __future__ import annotations

import bz2
import gzip
import os
import random
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from integrity.errors import ReadError
from integrity.inspect.confinement import MEMORY_BYTES
from integrity.inspect.inspector import Inspector
from integrity.inspect.outcome import CheckResult
from support.formats import MAKERS

ZEROS = bytes(10 << 20)


def make_bombs(folder: Path) -> None:
    """Streams of some KiB with gigabytes in them, headers that promise gigabytes, nesting, holes."""
    (folder / "many.bz2").write_bytes(bz2.compress(ZEROS) * 400)
    with zipfile.ZipFile(folder / "deep.zip", "w", zipfile.ZIP_BZIP2) as archive, archive.open("a", "w") as file:
        for _ in range(40):
            file.write(ZEROS)
    (folder / "wide.gif").write_bytes(b"GIF89a" + struct.pack("<HHBBB", 65_535, 65_535, 0xF7, 0, 0) + bytes(800))
    xz = b"\xfd7zXZ\0\0\4\xe6\xd6\xb4F\2\0!\1\x28\0\0\0" + bytes(4)  # a dictionary of 4 GiB
    (folder / "memory.xz").write_bytes(xz + bytes(100))
    boxes = b""
    for _ in range(2_000):
        boxes = struct.pack(">I4s", len(boxes) + 8, b"moov") + boxes
    (folder / "nested.mp4").write_bytes(struct.pack(">I4s8s", 16, b"ftyp", b"isom") + boxes)
    (folder / "nested.pdf").write_bytes(b"%PDF-1.4\n1 0 obj" + b"[" * 200_000 + b"]" * 200_000 + b"endobj\n%%EOF")
    for name, head in (("hole.sqlite", b"SQLite format 3\0"), ("hole.tar", b""), ("hole.png", b"\x89PNG\r\n\x1a\n")):
        (folder / name).write_bytes(head)
        os.truncate(folder / name, 1 << 40)


def test_bombs_are_bounded_and_the_next_file_is_tested(tmp_path: Path) -> None:
    """No bomb passes, and every one is over in the time that it was given."""
    make_bombs(tmp_path)
    good = tmp_path / "good.gz"
    good.write_bytes(gzip.compress(b"content"))
    with Inspector(cpu_s=0.5) as inspector:
        for path in sorted(tmp_path.iterdir()):
            found = inspector.inspect_path(os.fsencode(path)).result
            assert (found is CheckResult.PASSES) == (path == good)
            assert inspector.inspect_path(os.fsencode(good)).result is CheckResult.PASSES
        bombs = [os.fsencode(tmp_path / name) for name in ("many.bz2", "hole.sqlite")]
        assert {inspector.inspect_path(path).result for path in bombs} == {CheckResult.UNTESTABLE}


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    """A FIFO, a folder, a device, and a name without a file."""
    os.mkfifo(tmp_path / "fifo.zip")
    with Inspector() as inspector:
        for path in (tmp_path / "fifo.zip", tmp_path, Path("/dev/zero"), tmp_path / "none"):
            with pytest.raises(ReadError):
                inspector.inspect_path(os.fsencode(path))


def test_any_damage_leaves_the_inspector_at_work(tmp_path: Path) -> None:
    """Random blocks in files of every format: some crash a library, and none is taken for unknown."""
    rng = random.Random(7)
    with Inspector(cpu_s=5) as inspector:
        for suffix, make in MAKERS.values():
            path = tmp_path / f"file{suffix}"
            make(rng, path)
            data = path.read_bytes()
            for _ in range(5):
                at = rng.randrange(16, len(data))
                path.write_bytes(data[:at] + rng.randbytes(40) + data[at + 40 :])
                assert inspector.inspect_path(os.fsencode(path)).result is not CheckResult.UNKNOWN


def test_the_child_has_no_rights_left(tmp_path: Path) -> None:
    """It writes no file, runs nothing, and can't take more memory than is allowed."""
    tmp_path.chmod(0o777)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    program = f"""
import os, subprocess
from integrity.inspect.confinement import confine
confine()
def fails(do):
    try:
        do()
    except (OSError, MemoryError) as error:
        return True
    return False
print(fails(lambda: open({str(secret)!r}).read()), fails(lambda: os.unlink({str(secret)!r})),
      fails(lambda: open({str(tmp_path / "new")!r}, "w").write("a")), fails(lambda: bytearray({MEMORY_BYTES})))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True"] * 4
    assert secret.read_text() == "secret"
