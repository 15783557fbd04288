"""``integrity accept``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import Output, confirm
from integrity.cli.params import FINDING_NUMBER, PATH, examples
from integrity.cli.running import at_files, make_quiet_context, own_path
from integrity.cli.session import Session
from integrity.errors import ConfigError, show_path
from integrity.paths import absolute, path_fields

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.jobs.admin.accept import AcceptedFile, FolderPlan


@click.command(
    epilog=examples(
        ("integrity accept 12 --reason 'I edited it'", "the file of finding 12"),
        ("integrity accept /srv/photos --deletions --reason cleaned-up", "deletions in a folder; asks before"),
        (
            "integrity accept /srv/photos/a.jpg --with nightly --reason edited",
            "the file is right, not what nightly has",
        ),
    )
)
@click.argument("files", nargs=-1, type=PATH, metavar="FILE|NUMBER...")
@click.option(
    "--finding", "numbers", multiple=True, type=FINDING_NUMBER, metavar="NUMBER",
    help="The file of this finding; may be repeated. The same as NUMBER alone.",
)  # fmt: skip
@click.option("--reason", required=True, metavar="TEXT", help="The reason, kept with the former baseline.")
@click.option("--changes", is_flag=True, help="For a folder: accept the changes that await a decision.")
@click.option("--deletions", is_flag=True, help="For a folder: accept the deletions that await a decision.")
@click.option(
    "--rewrites", is_flag=True, help="For a folder: accept files whose content changed under their old times."
)
@click.option(
    "--with", "copy", metavar="COPY",
    help="The files are right, not what this copy has instead; from then on the copy counts as out of date.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.pass_obj
def accept(
    session: Session,
    files: tuple[bytes, ...],
    numbers: tuple[int, ...],
    reason: str,
    changes: bool,
    deletions: bool,
    rewrites: bool,
    copy: str | None,
    yes: bool,
) -> int:
    """
    Accept the current content of files as correct.

    Each FILE is read from the disk again, and its content becomes the new baseline; a file that is gone is removed
    from the catalog. Its findings are resolved. With --changes or --deletions, FILE is a folder: changes that
    scans held back there are accepted, after showing how many there are; damaged files are left out. With --rewrites,
    files whose content changed although their times did not are: look at a few of them first.

    With --with, a difference between a file and its copy is decided in favor of the file. The opposite:
    repair FILE --from COPY --copy-is-right.

    A NUMBER is that of a finding, as `integrity findings` lists them. A file whose name consists of digits is written
    with its folder, such as ./12.
    """
    if not files and not numbers:
        raise click.UsageError("name a file, or the number of a finding, as `findings` lists them")
    if copy is not None and (changes or deletions or rewrites or numbers or any(word.isdigit() for word in files)):
        raise click.UsageError(
            "--with decides about files that are named: no numbers, no --changes, --deletions, or --rewrites"
        )
    if not reason.strip():
        raise click.BadParameter("say why, so that it can be understood later", param_hint="--reason")
    names, numbers = _split(files, numbers)
    with at_files(session, names, writes=True) as there, there.open_catalog(writes=True) as catalog:
        from integrity.jobs.admin.accept import find_numbered

        if numbers and there.shard is not None:
            raise ConfigError(
                "files of a shared tree are named by their path: numbers are those of this machine's catalog"
            )
        is_folder = changes or deletions or rewrites
        found = find_numbered(catalog, numbers, is_folder=is_folder)
        paths = list(dict.fromkeys([*map(own_path, names), *found]))
        if is_folder:
            flags = {"changes": changes, "deletions": deletions, "rewrites": rewrites}
            return _accept_folders(there, catalog, paths, reason, {name for name in flags if flags[name]}, is_yes=yes)
        if copy is not None:
            return _accept_over_copy(there, catalog, paths, copy, reason)
        return _accept_files(there, catalog, paths, reason)


def _split(files: tuple[bytes, ...], numbers: tuple[int, ...]) -> tuple[list[bytes], tuple[int, ...]]:
    """
    Tell names from numbers of findings.

    Raises:
        click.UsageError: a number is the name of a file, too.
    """
    typed = [word for word in files if word.isdigit()]
    for word in typed:
        if os.path.lexists(word):
            raise click.UsageError(
                f"{word.decode()} may be a finding or the file of that name: for the file type ./{word.decode()}, for"
                f" the finding --finding {word.decode()}"
            )
    return [word for word in files if not word.isdigit()], (*map(int, typed), *numbers)


def _accept_files(session: Session, catalog: Catalog, paths: list[bytes], reason: str) -> ExitCode:
    from integrity.jobs.admin.accept import AcceptedAs, accept_file, find_file_targets

    context = make_quiet_context(session, catalog)
    code = ExitCode.OK
    for target in find_file_targets(catalog, paths):
        done = accept_file(context, target, reason)
        _tell_file(session.output, done)
        if done.outcome is AcceptedAs.FAILED:
            code = ExitCode.INCOMPLETE
    return code


def _accept_over_copy(session: Session, catalog: Catalog, paths: list[bytes], copy: str, reason: str) -> ExitCode:
    """Decide differences in favor of the files; both sides are read before anything is decided."""
    from integrity.errors import CopyUnreachable, ReadError
    from integrity.jobs.admin.accept import AcceptedAs, AcceptedFile, find_file_targets
    from integrity.jobs.admin.reject_copy import reject_copy
    from integrity.jobs.compare.source import find_source
    from integrity.words.text import count

    context = make_quiet_context(session, catalog)
    code, refusals = ExitCode.OK, list[str]()
    for target in find_file_targets(catalog, paths):
        path = absolute(target.root.path, target.prefix)
        source = find_source(catalog, session.config, copy, (path,))
        try:
            resolved = reject_copy(context, target, source, reason)
        except (CopyUnreachable, ReadError) as error:
            _tell_file(session.output, AcceptedFile(path, AcceptedAs.FAILED, str(error)))
            code = ExitCode.INCOMPLETE
            continue
        except ConfigError as error:
            refusals.append(str(error))
            continue
        session.output.say(
            f"{show_path(path)}: accepted: your file is right, and {source.recorded_name} is out of date;"
            f" {count(resolved, 'finding')} resolved"
        )
        fields = {"outcome": AcceptedAs.CONTENT.value, "findings_resolved": resolved, "copy": source.recorded_name}
        session.output.give("accepted", path_fields("path", path) | {"message": "", "other_names": []} | fields)
    if refusals:
        raise ConfigError("; ".join(refusals))
    return code


def _tell_file(output: Output, done: AcceptedFile) -> None:
    from integrity.errors import printable
    from integrity.jobs.admin.accept import AcceptedAs
    from integrity.words.text import count

    if done.outcome is AcceptedAs.FAILED:
        output.tell(f"{show_path(done.path)}: NOT accepted: {printable(done.message)}")
    else:
        is_there = done.outcome is AcceptedAs.CONTENT
        what = "what it holds now is right" if is_there else "it is gone, and so is its record"
        resolved = f"; {count(done.findings_resolved, 'finding')} resolved" if done.findings_resolved else ""
        names = (
            f"; also under its other names {', '.join(map(show_path, done.other_names))}" if done.other_names else ""
        )
        output.say(f"{show_path(done.path)}: accepted: {what}{names}{resolved}")
    fields: dict[str, object] = {
        "outcome": done.outcome.value,
        "message": done.message,
        "findings_resolved": done.findings_resolved,
        "other_names": [show_path(name) for name in done.other_names],
    }
    output.give("accepted", path_fields("path", done.path) | fields)


def _accept_folders(
    session: Session,
    catalog: Catalog,
    paths: list[bytes],
    reason: str,
    wanted: set[str],
    *,
    is_yes: bool,
) -> ExitCode:
    from integrity.jobs.admin.accept import FileChange, accept_folder, plan_folders

    plans = plan_folders(catalog, paths, frozenset(map(FileChange, wanted)))
    count = sum(len(plan.changes) + len(plan.deletions) + len(plan.rewrites) for plan in plans)
    for plan in plans:
        _preview(session.output, plan)
    confirm(f"Take over what is shown above ({count:,} files)?", is_yes=is_yes)
    context = make_quiet_context(session, catalog)
    for plan in plans:
        changed, removed, rewritten = accept_folder(context, plan, reason)
        path = absolute(plan.target.root.path, plan.target.prefix)
        more = f", {rewritten:,} rewritten" if plan.rewrites else ""
        session.output.say(f"{show_path(path)}: accepted {changed:,} changed and {removed:,} deleted{more}")
        fields = {"changes": changed, "deletions": removed, "rewrites": rewritten, "left_out": plan.left_out}
        session.output.give("accepted", path_fields("path", path) | fields)
    return ExitCode.OK


def _preview(output: Output, plan: FolderPlan) -> None:
    from integrity.words.text import count

    root = plan.target.root.path
    output.say(f"{show_path(absolute(root, plan.target.prefix))}:")
    rewritten = f", {count(len(plan.rewrites), 'rewritten file')}" if plan.rewrites else ""
    changed, deleted = count(len(plan.changes), "changed file"), count(len(plan.deletions), "deleted file")
    output.say(f"  {changed}, {deleted}{rewritten}, such as")
    for path in plan.examples:
        output.say(f"    {show_path(absolute(root, path))}")
    if plan.left_out:
        output.say(f"  {count(plan.left_out, 'damaged file')} left out: look at each, and accept it by name")
