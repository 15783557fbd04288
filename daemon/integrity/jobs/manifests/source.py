"""Open a manifest for import, and refuse files that are none before anything is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from integrity import program
from integrity.errors import ConfigError, Unreadable, show_path
from integrity.files.plain import STDIN
from integrity.hashing.stored_digests import Algorithm
from integrity.lists.entries import BadLine, Form, ManifestEntry
from integrity.lists.forms import find_bagit_algorithm
from integrity.lists.reader import Manifest, read_to_entry

_TITLES = {
    Form.LINES: "GNU and BSD",
    Form.ZEROS: "GNU and BSD, with NUL at the end of each line",
    Form.HASHDEEP: "hashdeep",
    Form.BAGIT: "BagIt",
    Form.OBJECTS: "JSON",
}


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """
    An open manifest with at least one entry.

    Args:
        path: absolute real path; ``-`` for standard input.
        lines: entries and bad lines, in order; to be iterated once. Raises Unreadable.
        manifest: the list, whose digests are to be named by its algorithms.
    """

    path: bytes
    lines: Iterator[ManifestEntry | BadLine]
    manifest: Manifest

    @property
    def kind(self) -> Form:
        """Return the format, of those that the command line knows."""
        return Form.LINES if self.manifest.form is Form.ZEROS else self.manifest.form

    @property
    def name(self) -> str:
        return "standard input" if self.path == STDIN else show_path(self.path)


@contextmanager
def open_source(path: bytes, form: Form | None, wanted: Sequence[Algorithm]) -> Iterator[ManifestSource]:
    """
    Open a manifest.

    Args:
        path: of the file; ``-`` for standard input.
        form: requested format; None to detect it.
        wanted: the only algorithms to read; empty for all.

    Raises:
        ConfigError: the file can't be read, or contains nothing usable.
    """
    if path == STDIN:
        yield _start(sys.stdin.buffer, path, form, wanted)
        return
    try:
        stream = open(path, "rb")  # noqa: SIM115 - closed below; errors of the with block are not handled here
    except OSError as error:
        raise ConfigError(f"{show_path(path)}: can't be read: {error.strerror}") from error
    with stream:
        yield _start(stream, os.path.realpath(path), form, wanted)


def _start(stream: BinaryIO, path: bytes, form: Form | None, wanted: Sequence[Algorithm]) -> ManifestSource:
    """Detect the format, and read up to the first entry."""
    shown = "standard input" if path == STDIN else show_path(path)
    name = os.path.basename(path)
    if form is Form.BAGIT and find_bagit_algorithm(name) is None:
        name = b"manifest-%s.txt" % (wanted[0].name.replace("-", "").encode("ascii") if wanted else b"md5")
    try:
        manifest = Manifest(stream, name=name, wanted=wanted)
    except OSError as error:
        raise ConfigError(f"{shown}: can't be read: {error.strerror}") from error
    manifest.form = form or manifest.form
    if manifest.form is Form.SFV:
        raise ConfigError(
            f"{shown}: is a list of CRC32 sums (SFV), which are too short to tell that a file is right; check the files"
            f" with: {program.command('sum -c')}"
        )
    lines = _read(manifest, shown)
    first = read_to_entry(lines)
    if first and isinstance(first[-1], ManifestEntry):
        return ManifestSource(path, chain(first, lines), manifest)
    bad = len(first)
    raise ConfigError(f"{shown}: {_describe_useless(bad, manifest.form, wanted)}")


def _describe_useless(bad: int, form: Form, wanted: Sequence[Algorithm]) -> str:
    if not bad:
        return "holds no digests"
    restriction = f" with a digest of {' or '.join(one.name for one in wanted)}" if wanted else ""
    return f"no line of it can be used ({bad:,} were looked at as {_TITLES[form]}{restriction}); is it a manifest?"


def _read(manifest: Manifest, shown: str) -> Iterator[ManifestEntry | BadLine]:
    try:
        yield from manifest.read()
    except OSError as error:
        message = f"{shown}: can't be read on: {error.strerror}; what was imported up to there is kept"
        raise Unreadable(message, errno=error.errno or 0) from error
