"""``integrity forget``."""

from __future__ import annotations

import time

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.output import confirm
from integrity.cli.params import PATH
from integrity.cli.running import own_path, real_path
from integrity.cli.session import Session
from integrity.errors import show_path
from integrity.paths import path_fields


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
