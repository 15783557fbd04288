"""``integrity root list|release|rebind|pause|resume`` and ``integrity forget``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import confirm
from integrity.cli.params import PATH, examples
from integrity.cli.running import own_path, real_path, run_job
from integrity.cli.session import Session
from integrity.errors import printable, show_path
from integrity.paths import absolute, path_fields
from integrity.words.text import iso_time

_FILES_SHOWN = 10
_FOLDERS_SHOWN = 20


@click.group(
    epilog=examples(
        ("integrity root list", "the watched folders"),
        ("integrity root rebind /mnt/old /srv/new", "the files are on a new disk or path now"),
        ("integrity root pause /srv/photos", "check nothing there until it is resumed"),
    )
)
def root() -> None:
    """List, release, rebind, pause, or resume watched folders."""


@root.command(
    "list",
    epilog=examples(
        ("integrity root list", "path and state of each folder"), ("integrity root list --json", "for scripts")
    ),
)
@click.pass_obj
def list_roots(session: Session) -> int:
    """List the watched folders."""
    from integrity.words.text import count

    with session.open_catalog(writes=False) as catalog:
        from integrity.catalog.roots import find_roots
        from integrity.same_place import get_plain_name

        with catalog.read() as connection:
            roots = find_roots(connection)
    for one in roots:
        policy = session.config.settings_for(one.path).policy.value
        reason = f": {printable(one.state_reason)}" if one.state_reason else ""
        files = count(one.file_count, "file")
        session.output.tell(f"{one.state.value:<9}  {policy:<7}  {files:>15}  {show_path(one.path)}{reason}")
        fields = {
            "state": one.state.value,
            "state_reason": one.state_reason,
            "policy": policy,
            "files": one.file_count,
            "fs_id": get_plain_name(one.identity.fs_id),
            "fs_type": one.identity.fs_type,
            "created_at": iso_time(one.created_at),
        }
        session.output.give("root", path_fields("path", one.path) | fields)
    return ExitCode.OK


@root.command(
    epilog=examples(
        ("integrity root release /srv/photos", "the folder is right, on another disk"),
        ("integrity root release --files-gone /srv/photos", "it is empty, and that is right"),
        ("integrity scan /srv/photos", "then look at it"),
    )
)
@click.argument("path", type=PATH)
@click.option(
    "--files-gone", is_flag=True, help="Also if none of the recorded files is there: they were deleted on purpose."
)
@click.pass_obj
def release(session: Session, path: bytes, files_gone: bool) -> int:
    """
    Resume checking a suspended folder.

    Use this if the folder is correct even though it is on a different disk, or, with --files-gone, empty. No record
    is changed: the next scan judges what is there.
    """
    with session.open_catalog(writes=True) as catalog:
        from integrity.jobs.admin.roots import release as release_root

        one = release_root(catalog, real_path(path), are_files_gone=files_gone, now=int(time.time()))
    _tell(session, one.path, "released", f"released; have it looked at:  {program.command('scan', one.path)}")
    return ExitCode.OK


@root.command(
    epilog=examples(
        ("integrity root pause /srv/photos", "check nothing there"),
        ("integrity root resume /srv/photos", "and check it again"),
    )
)
@click.argument("path", type=PATH)
@click.pass_obj
def pause(session: Session, path: bytes) -> int:
    """Exclude a root from all jobs until it is resumed."""
    return _set_paused(session, path, is_paused=True)


@root.command(
    epilog=examples(("integrity root resume /srv/photos", "check it again"), ("integrity scan /srv/photos", "at once"))
)
@click.argument("path", type=PATH)
@click.pass_obj
def resume(session: Session, path: bytes) -> int:
    """Include a paused root in jobs again."""
    return _set_paused(session, path, is_paused=False)


@root.command(
    epilog=examples(
        ("integrity root rebind /mnt/old/photos /srv/photos", "after a move to a new disk or path"),
        ("integrity root rebind /srv/photos /srv/photos", "a new disk at the same path"),
        ("integrity root rebind --no-scrub /mnt/old /srv/new", "verify the copied files later"),
    )
)
@click.argument("old", type=PATH)
@click.argument("new", type=PATH)
@click.option("--no-scrub", is_flag=True, help="Don't re-read all files now; run a scrub yourself soon.")
@click.pass_obj
def rebind(session: Session, old: bytes, new: bytes, no_scrub: bool) -> int:
    """
    Continue a root at another path or on another disk.

    OLD is its former path, NEW is where its files are now; both may be the same path if only the disk was
    replaced. All files are then re-read and compared with their records, which reveals damage done by copying.
    Recorded files that are not at NEW are listed and stay findings until they are there, or until you accept that
    they are gone.

    After a move to another machine bring the catalog there first: `catalog backup FOLDER` on the old one, `catalog
    restore FOLDER` on the new one.
    """
    target = real_path(new)
    with session.open_catalog(writes=True) as catalog:
        from integrity.jobs.admin.roots import rebind as rebind_root

        rebound = rebind_root(catalog, real_path(old), target, now=int(time.time()))
    words = "re-reading all of it against the old baselines"
    if no_scrub:
        words = f"now re-read all of it:  {program.command('scrub --no-scan', target)}"
    _tell(session, target, "rebound", f"rebound; {words}", files_missing=len(rebound.missing))
    if rebound.missing:
        for line in _describe_missing(target, rebound.missing, rebound.root.file_count):
            session.output.tell(line)
    if no_scrub:
        return ExitCode.PROBLEM if rebound.missing else ExitCode.OK
    from integrity.jobs.options import ScrubOptions
    from integrity.jobs.runner import scrub

    # Nothing is scanned first: each recorded file is read anyway, and the missing ones have findings already.
    options = ScrubOptions(scan_first=False, scan_missing=False)
    return run_job(session, session.open_catalog(writes=True), lambda context: scrub(context, [target], options))


def _describe_missing(root: bytes, missing: Sequence[bytes], recorded: int) -> Iterator[str]:
    """Say what was not copied: the first files by name, then how many of each folder, and what to do."""
    from integrity.words.text import count

    verb = "is" if len(missing) == 1 else "are"
    yield f"{len(missing):,} of {count(recorded, 'recorded file')} {verb} not there:"
    for path in missing[:_FILES_SHOWN]:
        yield f"  {show_path(absolute(root, path))}"
    if len(missing) > _FILES_SHOWN:
        folders = Counter(path.rpartition(b"/")[0] for path in missing).most_common()
        yield "by folder:"
        for folder, number in folders[:_FOLDERS_SHOWN]:
            yield f"  {count(number, 'file')} in {show_path(absolute(root, folder or None))}"
        if len(folders) > _FOLDERS_SHOWN:
            yield f"  and {count(len(folders) - _FOLDERS_SHOWN, 'more folder')}"
    yield f"copy them there, then have them noticed:  {program.command('scan', root)}"
    yield f"or agree that they are gone:  {program.command('accept', root, '--deletions --reason WHY')}"


def _set_paused(session: Session, path: bytes, *, is_paused: bool) -> int:
    with session.open_catalog(writes=True) as catalog:
        from integrity.jobs.admin.roots import set_paused

        one = set_paused(catalog, real_path(path), is_paused=is_paused, now=int(time.time()))
    state = "paused" if is_paused else "active"
    _tell(session, one.path, state, state)
    return ExitCode.OK


def _tell(session: Session, path: bytes, state: str, words: str, **fields: int) -> None:
    session.output.say(f"{show_path(path)}: {words}")
    session.output.give("root", path_fields("path", path) | {"state": state, **fields})


@click.command(
    epilog=examples(
        ("integrity forget /srv/photos/old", "these files are no longer watched"),
        ("integrity forget --copy nightly", "a backup that no longer exists"),
    )
)
@click.argument("paths", nargs=-1, type=PATH, metavar="PATH...")
@click.option(
    "--copy", metavar="COPY", help="Remove this backup copy instead: a name or a URL (only of PATH, if one is given)."
)
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.pass_obj
def forget(session: Session, paths: tuple[bytes, ...], copy: str | None, yes: bool) -> int:
    """
    Remove files, a watched folder, or a backup copy from the catalog.

    The files themselves are not touched. The next scan of the folder records them as new, and what was known about
    them, including damage, is lost.
    """
    if copy is not None:
        return _forget_copy(session, copy, paths, is_yes=yes)
    if not paths:
        raise click.UsageError("name what to forget: PATH..., or --copy COPY")
    return _forget_paths(session, paths, is_yes=yes)


def _forget_paths(session: Session, paths: tuple[bytes, ...], *, is_yes: bool) -> int:
    from integrity.words.text import count

    output = session.output
    with session.open_catalog(writes=True) as catalog:
        from integrity.jobs.admin.forget import forget as forget_one
        from integrity.jobs.admin.forget import plan_forgetting

        plan = plan_forgetting(catalog, [own_path(path) for path in paths])
        for one in plan:
            what = "" if one.target.prefix else "a whole root with its history: "
            output.say(
                f"{show_path(one.path)}: {what}{count(one.files, 'file')}, {count(one.open_findings, 'open finding')}"
            )
        total = sum(one.files for one in plan)
        confirm(f"Forget what is recorded of {count(total, 'file')}?", is_yes=is_yes)
        configured = {root.path for root in session.config.roots}
        for one in plan:
            forget_one(catalog, one, now=int(time.time()))
            output.give("forgotten", path_fields("path", one.path) | {"files": one.files})
            if one.path in configured and not one.target.prefix:
                output.warn(f"{show_path(one.path)} is a [[root]] of the config: the next scan records it anew")
    output.say("forgotten")
    return ExitCode.OK


def _forget_copy(session: Session, copy: str, paths: tuple[bytes, ...], *, is_yes: bool) -> int:
    from integrity.words.text import count

    output = session.output
    with session.open_catalog(writes=True) as catalog:
        from integrity.jobs.admin.forget import forget_copy, plan_forgetting_copy

        plan = plan_forgetting_copy(catalog, copy, [real_path(path) for path in paths])
        for one in plan:
            output.say(
                f"{one.record.name}, a copy of {show_path(one.base)}: what it said of {count(one.files, 'file')},"
                f" {count(one.open_findings, 'open finding')}"
            )
        confirm("Forget what is recorded of this copy?", is_yes=is_yes)
        for one in plan:
            forget_copy(catalog, one, now=int(time.time()))
            output.give("forgotten", path_fields("path", one.base) | {"copy": one.record.name, "files": one.files})
        if any(configured.name == copy for configured in session.config.copies):
            output.warn(f"{copy} is a [[copy]] of the config: the next comparison begins anew with it")
    output.say("forgotten")
    return ExitCode.OK
