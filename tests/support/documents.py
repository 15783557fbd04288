"""A household's files, of types that say what they are, and what ransomware makes of them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

_FOLDERS = 20
_BODY_BYTES = 3000

TYPES = ("jpg", "docx", "txt", "pdf", "csv")


def make_documents(folder: Path, count: int, *, types: Sequence[str] = TYPES, seed: int = 1) -> list[Path]:
    """Make ``count`` files of some types in twenty folders; the same for the same seed. Return their paths, sorted."""
    source = random.Random(seed)
    paths = []
    for number in range(count):
        kind = types[number % len(types)]
        path = folder / f"d{number // len(types) % _FOLDERS}" / f"{number}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make_content(kind, number, source))
        paths.append(path)
    return sorted(paths)


def make_content(kind: str, number: int, source: random.Random) -> bytes:
    """Make what a file of a type holds: its mark and compressed bytes, or text."""
    marks = {"jpg": b"\xff\xd8\xff\xe0\0\x10JFIF", "docx": b"PK\x03\x04\x14", "pdf": b"%PDF-1.7\n"}
    if kind in marks:
        return marks[kind] + source.randbytes(_BODY_BYTES)
    return b"".join(b"%d;%d;some words in line %d\n" % (number, line, line) for line in range(120))


def encrypt(paths: Iterable[Path], *, suffix: str = "", keeps_times: bool = False) -> list[Path]:
    """Do to files in place what ransomware does: every byte, then the name if there is a suffix; give the new names."""
    done = []
    for path in paths:
        before = path.stat()
        with open(path, "r+b") as file:
            # Of all that is random some begins as a file of some type does: so always the same.
            content = random.Random(file.read()).randbytes(before.st_size)
            file.seek(0)
            file.write(content)
        if keeps_times:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        done.append(path.rename(path.with_name(path.name + suffix)) if suffix else path)
    return done
