"""``integrity versions`` and ``integrity history``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.params import PATH, examples
from integrity.cli.running import own_path
from integrity.cli.session import Session
from integrity.errors import ReadInterrupted, show_path

if TYPE_CHECKING:
    from integrity.copies.versions import CopyVersion


@click.command(
    epilog=examples(
        ("integrity versions /srv/photos/a.jpg", "which backups have it whole"),
        ("integrity versions /srv/photos/a.jpg --with restic:/mnt/backup", "a repository that is no [[copy]]"),
    )
)
@click.argument("file", type=PATH, metavar="FILE")
@click.option("--with", "copy", type=PATH, metavar="COPY", help="Look only into this copy.")
@click.pass_obj
def versions(session: Session, file: bytes, copy: bytes | None) -> int:
    """
    Show which versions of your backups have a file whole.

    Reads each content that the file had in restic:, borg: and snapshots: copies, and holds it against the record.

    Exits with 0 if a version has the recorded content; 1 if none has it, or if one that was made before the file was
    recorded has another content of the same size and time; 3 if a copy can't be read.
    """
    from integrity.cli.console import stop_on_signals
    from integrity.jobs.versions.of_file import find_histories
    from integrity.views.copies import describe_history, version_objects

    path, named = own_path(file), None if copy is None else os.fsdecode(copy)
    has_good = is_incomplete = is_contradicted = False
    with stop_on_signals() as stop, session.open_catalog(writes=False) as catalog:
        session.output.tell(show_path(path))
        try:
            for history in find_histories(catalog, session.config, path, named, stop=stop):
                has_good |= bool(history.good)
                is_incomplete |= bool(history.trouble)
                is_contradicted |= any(one.is_silent and history.is_from_before(one) for one in history.found)
                for line in describe_history(path, history):
                    session.output.tell(line)
                for fields in version_objects(path, history):
                    session.output.give("version", fields)
        except ReadInterrupted:
            return session.fail("interrupted; nothing was changed", ExitCode.INTERRUPTED)
    if is_contradicted:
        return ExitCode.PROBLEM
    return ExitCode.OK if has_good else ExitCode.INCOMPLETE if is_incomplete else ExitCode.PROBLEM


@click.command(
    epilog=examples(
        ("integrity history restic:/mnt/backup", "all that was backed up there"),
        ("integrity history nightly /srv/photos", "one folder, in a [[copy]] of the configuration"),
    )
)
@click.argument("copy", type=PATH, metavar="COPY")
@click.argument("path", type=PATH, required=False, metavar="[PATH]")
@click.pass_obj
def history(session: Session, copy: bytes, path: bytes | None) -> int:
    """
    Find what rotted before integrity was installed, in the versions of a backup.

    Compares each version of a restic:, borg: or snapshots: copy with the one before it, and reports files whose
    content changed while size and modification time did not, and whether the file here has the older or the newer
    content. A backup reads a file again only if its time changed, so much rot shows only between the file and its
    backups: compare --read finds that.

    Exits with 0 if nothing was found, 1 if something was, 3 if something could not be read.
    """
    from integrity.cli.console import stop_on_signals
    from integrity.jobs.compare.source import find_series
    from integrity.jobs.versions.history import SilentChange, find_silent_changes, look_up_digests
    from integrity.views.copies import describe_silent_change, silent_change_object
    from integrity.words.text import count, local_time

    name, found, unread, seen = os.fsdecode(copy), 0, 0, 1

    def tell(version: CopyVersion, number: int, of: int) -> None:
        nonlocal seen
        seen = number
        session.output.note(f"version {number:,} of {of:,}, of {local_time(version.taken_at)}")

    with stop_on_signals() as stop, session.open_catalog(writes=False) as catalog:
        real = None if path is None else own_path(path)
        try:
            source, base = find_series(catalog, session.config, name, real)
            recorded = look_up_digests(catalog, source.base)
            for one in find_silent_changes(source, base, recorded, stop=stop, tell=tell):
                if isinstance(one, SilentChange):
                    found += 1
                    for line in describe_silent_change(one):
                        session.output.tell(line)
                    session.output.give("silent_change", silent_change_object(one, name))
                else:
                    unread += 1
                    session.output.warn(f"{show_path(one.path)}: can't be read in {one.version.name}: {one.reason}")
        except ReadInterrupted:
            return session.fail("interrupted; nothing was changed", ExitCode.INTERRUPTED)
    what = f"{count(found, 'file')} changed under the same time" if found else "no file changed under the same time"
    session.output.tell(f"history: {what}, in {count(seen, 'version')}")
    return ExitCode.PROBLEM if found else ExitCode.INCOMPLETE if unread else ExitCode.OK
