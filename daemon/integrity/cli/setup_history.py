"""Find what rotted before today, in backups that keep versions: nothing that is recorded from now on can show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from integrity import program
from integrity.cli.setup_questions import wrap
from integrity.cli.signals import stop_on_signals
from integrity.config.copy_urls import keeps_versions
from integrity.errors import ConfigError, CopyUnreachable, ReadInterrupted, show_path
from integrity.jobs.compare.source import make_source
from integrity.jobs.versions.history import Here, SilentChange, digest_file, find_silent_changes
from integrity.paths import shell_path, shell_word
from integrity.views.copies import describe_silent_change, silent_change_object
from integrity.words.text import count, local_time

if TYPE_CHECKING:
    from integrity.cli.output import Output
    from integrity.config import ConfiguredCopy
    from integrity.copies.versions import CopyVersion


def look_back(output: Output, copies: Sequence[ConfiguredCopy], *, waits: bool) -> None:
    """
    Tell which files changed under the same time, according to the versions of each backup.

    Args:
        waits: somebody sees this, and can end it by Ctrl-C; otherwise the command is told.
    """
    for copy in copies:
        if not keeps_versions(copy.url):
            continue
        command = program.command("history", shell_word(copy.name))
        if not waits:
            output.say(wrap(f"To find what rotted before today, in the versions of {copy.name}: {command}"))
            continue
        output.say()
        output.say(wrap(f"Looking for what rotted before today, in {copy.name} (Ctrl-C ends this) ..."))
        try:
            _look_into(output, copy)
        except ReadInterrupted:
            output.say(wrap(f"Ended. To look again: {command}"))
            return
        except (ConfigError, CopyUnreachable) as error:
            output.warn(f"{error}; then look again: {command}")


def _look_into(output: Output, copy: ConfiguredCopy) -> None:
    def tell(version: CopyVersion, number: int, of: int) -> None:
        output.note(f"version {number:,} of {of:,}, of {local_time(version.taken_at)}")

    found = list[SilentChange]()
    with stop_on_signals() as stop:
        for one in find_silent_changes(make_source(copy, copy.url), copy.of, digest_file, stop=stop, tell=tell):
            if isinstance(one, SilentChange):
                found.append(one)
                for line in describe_silent_change(one):
                    output.say(line)
                output.give("silent_change", silent_change_object(one, copy.name))
            else:
                output.warn(f"{show_path(one.path)}: can't be read in {one.version.name}: {one.reason}")
    if not found:
        output.say("No file changed there under the same time.")
        return
    newer = [one for one in found if one.here is Here.NEWER]
    output.say(wrap(f"{count(len(found), 'file')} changed under the same time, before anything was recorded here."))
    if newer:
        output.say("Open those that have the newer content. If one is damaged, its older version is the good one;")
        output.say("once your files are recorded, this shows which backups have that:")
        output.say(f"  {program.command('versions', shell_path(newer[0].path))}")
