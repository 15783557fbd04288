"""Formats that only a library can read to the end: pictures, PDF, SQLite databases."""

from __future__ import annotations

import warnings
import zlib
from typing import Literal

from integrity.inspect.checked_file import CheckedFile
from integrity.inspect.outcome import NotTestable, OwnCheckFailed

_JPEGS = ("JPEG", "MPO")
_TIFF_ORDERS: dict[bytes, Literal["little", "big"]] = {b"II": "little", b"MM": "big"}
_MOST_DATABASE_BYTES = 256 << 20
_MOST_STREAM_BYTES = 256 << 20
_ROLLBACK_JOURNAL = b"\x01\x01"
_JOURNAL_MODE_AT = 18
_BROKEN_RULE = ("NULL value in ", "CHECK constraint failed in ")
"""What a row may be that is older than a rule of its table: nothing is damaged."""

_MOST_LINES = 100_000


def check_picture(file: CheckedFile) -> None:
    """By decoding all of its pictures: jpeg, gif, tiff, webp."""
    from PIL import Image, UnidentifiedImageError

    warnings.simplefilter("ignore")
    try:
        with Image.open(file.stream) as picture:
            # What a JPEG says of more pictures behind the first one is often out of date.
            for number in range(1 if picture.format in _JPEGS else getattr(picture, "n_frames", 1)):
                picture.seek(number)
                picture.load()
    except Image.DecompressionBombError as error:
        raise NotTestable(f"it is too large to be decoded: {error}") from error
    except UnidentifiedImageError as error:
        order = _TIFF_ORDERS.get(file.take(0, 2))
        if order is not None and int.from_bytes(file.take(4, 4), order) < file.size_bytes:
            raise NotTestable("it is a TIFF of a kind that is not known here") from error
        raise OwnCheckFailed("its beginning is damaged, or of an unusual form: no picture can be decoded") from error
    except (OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, ArithmeticError) as error:
        if "not available" in str(error) or "unsupported" in str(error):
            raise NotTestable(f"it is of a kind that is not known here: {error}") from error
        raise OwnCheckFailed(f"it can't be decoded to its end: {error}") from error


def check_pdf(file: CheckedFile) -> None:
    """By its index of objects, and by the Adler-32 of what is compressed without loss."""
    import pikepdf

    try:
        with pikepdf.open(file.stream, attempt_recovery=False, access_mode=pikepdf.AccessMode.stream) as document:
            for one in document.objects:
                if isinstance(one, pikepdf.Stream) and one.get("/Filter") == "/FlateDecode":
                    zlib.decompressobj().decompress(one.read_raw_bytes(), _MOST_STREAM_BYTES)
            problems = document.get_warnings()
    except pikepdf.PasswordError as error:
        raise NotTestable("it is encrypted") from error
    except (pikepdf.PdfError, ValueError, RuntimeError, zlib.error) as error:
        raise OwnCheckFailed(f"its structure is damaged: {error}") from error
    if problems:
        raise OwnCheckFailed(f"its structure is damaged: {problems[0]}")


def check_sqlite(file: CheckedFile) -> None:
    """By SQLite's own check of a copy in memory: structure and indexes; content has no checksums."""
    import sqlite3  # not in the process of the catalog, which has an SQLite of its own

    if file.size_bytes > _MOST_DATABASE_BYTES:
        raise NotTestable(f"databases of more than {_MOST_DATABASE_BYTES >> 20} MiB are not tested")
    data = bytearray(file.take(0, file.size_bytes))
    data[_JOURNAL_MODE_AT : _JOURNAL_MODE_AT + 2] = _ROLLBACK_JOURNAL  # one in memory has no log beside it
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(bytes(data))
        database.execute("PRAGMA cell_size_check = ON")
        database.execute("PRAGMA ignore_check_constraints = ON")
        said = (row[0] for row in database.execute(f"PRAGMA integrity_check({_MOST_LINES})"))
        found = next((line for line in said if not line.startswith(_BROKEN_RULE)), "ok")
    except sqlite3.OperationalError as error:
        raise NotTestable(f"SQLite can't open it: {error}") from error
    except (sqlite3.DatabaseError, ValueError) as error:
        raise OwnCheckFailed(f"SQLite says: {error}") from error
    finally:
        database.close()
    if found != "ok":
        raise OwnCheckFailed(f"SQLite says: {' '.join(found.split())}")
