"""``integrity inspect``: test files by what their formats state of themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.params import PATH, examples
from integrity.cli.session import Session

if TYPE_CHECKING:
    from integrity.inspect.outcome import OwnCheck


@click.command(
    epilog=examples(
        ("integrity inspect /srv/photos", "all files of a folder"),
        ("integrity inspect -v backup.zip", "also what passes"),
    )
)
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="FILE|FOLDER...")
@click.pass_obj
def inspect(session: Session, paths: tuple[bytes, ...]) -> int:
    """
    Test files by the checksums inside them, without a catalog.

    By checksum: zip and its family (docx, odt, epub, jar), gzip, bzip2, xz, Zstandard, 7z, PNG, FLAC, Ogg, PAR2. By
    structure alone, which finds less: JPEG, GIF, TIFF, WebP, HEIC, PDF, SQLite, MP4, MKV, WAV, AVI, MP3, tar, RAR. Each
    file is read by a process without rights, with limits for time and memory.

    Exits with 1 if a file fails its own check, and with 3 if one can't be tested or read.
    """
    from integrity.cli.console import stop_on_signals

    with stop_on_signals() as stop:
        run = _InspectRun(session)
        for path in run.find_files(paths):
            if stop.is_set():
                return session.fail("interrupted; nothing was changed", ExitCode.INTERRUPTED)
            run.inspect(path)
        return run.finish()


class _InspectRun:
    def __init__(self, session: Session) -> None:
        from integrity.inspect.inspector import Inspector

        self._output = session.output
        self._inspector = Inspector()
        self._counts: Counter[str] = Counter()
        self._lacking: Counter[str] = Counter()  # formats of files that an extra would test

    def find_files(self, paths: tuple[bytes, ...]) -> Iterator[bytes]:
        from integrity.hashing.file_sums import Hint, ListedPaths
        from integrity.lists.arguments import find_files

        for one in find_files(paths, self._fail):
            if isinstance(one, ListedPaths):
                yield from one.paths
            elif not isinstance(one, Hint):
                yield one

    def inspect(self, path: bytes) -> None:
        from integrity.errors import ReadError

        try:
            found = self._inspector.inspect_path(path)
        except ReadError as error:
            self._counts["unreadable"] += 1
            self._output.complain("inspect", str(error))
            return
        self._counts[found.result.value] += 1
        self._tell(path, found)

    def _fail(self, path: bytes, why: str) -> None:
        from integrity.errors import show_path

        self._counts["unreadable"] += 1
        self._output.complain("inspect", f"{show_path(path)}: {why}")

    def _tell(self, path: bytes, found: OwnCheck) -> None:
        from integrity.errors import show_path
        from integrity.inspect.outcome import CheckResult
        from integrity.paths import path_fields

        if found.result is CheckResult.UNKNOWN:
            return
        by = "checksum" if found.has_checksum else "structure"
        fields = {"format": found.format, "result": found.result.value, "by": by, "message": found.reason or None}
        self._output.give("inspected", path_fields("path", path) | fields)
        if found.result is CheckResult.FAILS:
            headline = self._output.style("FAILS ITS OWN CHECK", "red")
            self._output.tell(f"{headline}  {show_path(path)}")
            self._output.tell(f"    {found.format}, by {by}: {found.reason}")
        elif found.result is CheckResult.UNTESTABLE:
            self._output.tell(f"can't be tested  {show_path(path)}: {found.format}: {found.reason}")
        elif found.result is CheckResult.NO_LIBRARY:
            self._lacking[found.format] += 1
        elif self._output.verbosity:
            word = "passes" if found.result is CheckResult.PASSES else "whole"
            self._output.tell(f"{word}  {show_path(path)}  ({found.format}, by {by})")

    def finish(self) -> ExitCode:
        from integrity.extras import how_to_install
        from integrity.inspect.outcome import CheckResult
        from integrity.words.text import count

        self._inspector.close()
        counts, tell = self._counts, self._output.tell
        if self._lacking:
            kinds = ", ".join(f"{number:,} {name}" for name, number in sorted(self._lacking.items()))
            tell(f"{kinds}: can't be tested, as libraries are missing; {how_to_install('formats')}")
        tested = counts[CheckResult.PASSES] + counts[CheckResult.WHOLE] + counts[CheckResult.FAILS]
        self._output.say(
            f"inspect: {count(tested, 'file')} tested: {counts[CheckResult.PASSES]:,} pass by checksum,"
            f" {counts[CheckResult.WHOLE]:,} whole by structure, {counts[CheckResult.FAILS]:,} fail;"
            f" {counts[CheckResult.UNTESTABLE] + counts[CheckResult.NO_LIBRARY]:,} can't be tested,"
            f" {counts['unreadable']:,} can't be read, {counts[CheckResult.UNKNOWN]:,} of other formats"
        )
        names = ("passes", "whole", "fails", "untestable", "no_library", "unknown", "unreadable")
        self._output.give("summary", {"job": "inspect", **{name: counts[name] for name in names}})
        if counts[CheckResult.FAILS]:
            return ExitCode.PROBLEM
        gaps = counts[CheckResult.UNTESTABLE] + counts[CheckResult.NO_LIBRARY] + counts["unreadable"]
        return ExitCode.INCOMPLETE if gaps else ExitCode.OK
