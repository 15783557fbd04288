"""``integrity explain``."""

from __future__ import annotations

import os

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.params import PATH
from integrity.cli.running import own_path
from integrity.cli.session import Session
from integrity.cli.shared_trees import at_files
from integrity.errors import ConfigError, show_path
from integrity.paths import absolute
from integrity.views.explain import describe_story, file_object


@click.command(
    epilog=examples(
        ("integrity explain /srv/photos/2019/img_0007.jpg", "when it was last verified, what is wrong with it"),
        ("integrity findings --path /srv/photos", "all findings in a folder"),
    )
)
@click.argument("file", type=PATH, metavar="FILE")
@click.pass_obj
def explain(session: Session, file: bytes) -> int:
    """
    Show everything known about a file: when it was verified, its findings, its copies.

    FILE may be the number of a finding about it.

    Exits with 0 if the file is known and has no open finding, 1 if it has one, 2 if it is unknown.
    """
    with at_files(session, [file], writes=False) as there, there.open_catalog(writes=False) as catalog:
        from integrity.jobs.explain import explain as find_story
        from integrity.jobs.explain import find_place

        is_number = file.isdigit() and not os.path.lexists(file)
        place = find_place(catalog, int(file)) if is_number else own_path(file)
        story = find_story(catalog, there.config, place)
    path = absolute(story.root, story.path)
    if not story.is_known:
        if story.is_folder or os.path.isdir(path):
            raise ConfigError(
                f"{show_path(path)}: {'is' if os.path.isdir(path) else 'was'} a folder; name a file in it, or list the"
                " findings in it:"
                f" {program.command('findings --path', path)}"
            )
        if not os.path.lexists(path):
            raise ConfigError(f"{show_path(path)}: there is no such file, and none is recorded")
        raise ConfigError(f"{show_path(path)}: is not recorded; record it: {program.command('scan', path)}")
    for line in describe_story(story, session.output):
        session.output.tell(line)
    session.output.give("file", file_object(story))
    return ExitCode.PROBLEM if story.open_findings else ExitCode.OK
