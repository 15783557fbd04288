"""``integrity catalog export``."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import Lines, Output
from integrity.cli.params import PATH
from integrity.cli.paths import path_fields
from integrity.cli.running import real_path
from integrity.cli.session import Session
from integrity.errors import show_path

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.jobs.manifests.exporting import ExportCounts, ExportPlan

_DAMAGED_SHOWN = 20


@click.command("export")
@click.argument("paths", nargs=-1, type=PATH, metavar="[PATH]...")
@click.option(
    "--format", "form", type=click.Choice(["md5sum", "hashdeep", "bagit", "json"]),
    help="What the lines look like; md5sum unless said.",
)  # fmt: skip
@click.option("--output", "place", type=PATH, metavar="FILE", help="Write to FILE; for BagIt it may be a folder.")
@click.option("--absolute", is_flag=True, help="Write absolute names, not such as are relative to the root.")
@click.pass_obj
def export_command(
    session: Session, paths: tuple[bytes, ...], form: str | None, place: bytes | None, absolute: bool
) -> int:
    """
    Write what is recorded as a manifest that other programs check; no file is read.

    Names are relative to the root:  cd ROOT && md5sum -c FILE;  cd ROOT && hashdeep -r -l -a -k FILE .

    \b
    md5sum    as md5sum writes it (the default)
    hashdeep  size, MD5 and name, as hashdeep writes it
    bagit     PATH is a bag: what lies in its data/ folder, as manifest-md5.txt has it;
              with a folder as --output also tagmanifest-md5.txt, for all other files
    json      objects, one a line, as `integrity --json sum` prints them

    Files whose row in the catalog is damaged are left out, and the exit code is 4. Very sparse files have no MD5 and
    are left out, and it is 3. Of a file in question its baseline is written: that is what is known to be good.
    """  # noqa: D301 - \b is click's
    from integrity.jobs.manifests.exporting import ExportForm, plan_export

    place = None if place == b"-" else place
    is_listing = session.output.is_json and place is None
    if is_listing and form not in (None, "json"):
        raise click.UsageError("with --json the lines are objects: leave out --format, or say --output FILE")
    chosen = ExportForm(form or ("json" if is_listing else "md5sum"))
    places = _find_places(place, chosen)
    left_out = frozenset(os.path.realpath(each) for each in places)
    wanted = [real_path(path) for path in paths]
    with session.open_catalog(writes=False) as opened:
        plan = plan_export(opened, wanted, chosen, is_absolute=absolute, left_out=left_out)
        counts = _write(session.output, opened, plan, places)
    return _finish(session.output, counts, places)


def _find_places(place: bytes | None, form: str) -> list[bytes]:
    """Name the files that are to be written; none for standard output."""
    from integrity.jobs.manifests.exporting import PAYLOAD_MANIFEST, TAG_MANIFEST

    if place is None:
        return []
    if not os.path.isdir(place):
        return [place]
    if form != "bagit":
        raise click.BadParameter("is a folder; name a file in it", param_hint="--output")
    return [os.path.join(place, PAYLOAD_MANIFEST), os.path.join(place, TAG_MANIFEST)]


def _write(output: Output, catalog: Catalog, plan: ExportPlan, places: list[bytes]) -> ExportCounts:
    from integrity.jobs.manifests.exporting import export
    from integrity.jobs.manifests.replacing import Replacement

    shown = 0

    def tell_damaged(path: bytes) -> None:
        nonlocal shown
        shown += 1
        if shown <= _DAMAGED_SHOWN:
            output.warn(f"{show_path(path)}: its row in the catalog is damaged, so it is left out")

    with ExitStack() as stack:
        sinks = [stack.enter_context(Replacement(place)) for place in places]
        if not sinks:
            return export(catalog, plan, stack.enter_context(Lines()), tell_damaged=tell_damaged)
        return export(catalog, plan, sinks[0], tags=sinks[1] if len(sinks) > 1 else None, tell_damaged=tell_damaged)


def _finish(output: Output, counts: ExportCounts, places: list[bytes]) -> ExitCode:
    """Say what was written and what was not: on stderr, for stdout may be the manifest."""
    from integrity.cli.text import count

    if places:
        output.say(f"{count(counts.files, 'file')} written to {', '.join(show_path(place) for place in places)}")
    if counts.in_question:
        output.warn(
            f"{count(counts.in_question, 'file')} of these in question: a finding is open, and what is written is the"
            " content recorded before it; see: integrity findings"
        )
    if counts.not_payload:
        output.warn(
            f"{count(counts.not_payload, 'file')} outside of data/ left out: they belong into tagmanifest-md5.txt,"
            " which is written as well if --output is a folder"
        )
    if counts.without_digest:
        output.warn(f"{count(counts.without_digest, 'very sparse file')} left out: no MD5 of the whole is recorded")
    if counts.damaged:
        output.warn(
            f"{count(counts.damaged, 'file')} left out because their rows are damaged; see: integrity catalog check"
        )
    fields = {
        "files": counts.files,
        "in_question": counts.in_question,
        "damaged": counts.damaged,
        "without_digest": counts.without_digest,
        "not_payload": counts.not_payload,
        "output": [path_fields("path", place) for place in places],
    }
    output.give("catalog_export", fields)
    if counts.damaged:
        return ExitCode.CATALOG
    return ExitCode.INCOMPLETE if counts.without_digest else ExitCode.OK
