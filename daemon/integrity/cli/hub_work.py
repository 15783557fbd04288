"""``integrity hub work``: read shared trees for a hub, in the foreground."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.params import SIZE
from integrity.errors import ConfigError, printable

if TYPE_CHECKING:
    from integrity.cli.session import Session
    from integrity.jobs.shards.worker import WorkerPause


@click.command(
    epilog=examples(
        ("integrity hub work", "read until nothing is due"),
        ("integrity hub work --keep-on --rate 50M", "go on as work becomes due, at 50 MiB/s at most"),
    )
)
@click.option("--keep-on", is_flag=True, help="Go on when nothing is due, until interrupted.")
@click.option("--rate", type=SIZE, help="Read at most this much per second, such as 50M.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads, whatever the type of disk.")
@click.pass_obj
def work(session: Session, keep_on: bool, rate: int | None, jobs: int | None) -> int:
    """
    Read shared trees for a hub.

    Works on each [[root]] that has `shared` set: asks the hub for parts of the tree that are due, scans and reads them,
    and brings the records back. It ends when nothing is due, and says when the
    next part is. The service does the same while the windows of [schedule] scrub are open. Interrupted,
    it brings back what it has done.
    """
    from integrity.cli.signals import stop_on_signals
    from integrity.files.span import UNLIMITED
    from integrity.jobs.pace.throttle import Throttle
    from integrity.jobs.shards.worker import WorkerSettings, find_work_folder, make_worker
    from integrity.words.findings import finding_object
    from integrity.words.text import iso_time

    roots = session.config.shared_roots
    if not roots:
        raise ConfigError("no shared tree is configured: set `shared` in its [[root]]")
    with stop_on_signals() as stop:
        pace = Throttle(rate, stop) if rate else UNLIMITED
        settings = WorkerSettings(find_work_folder(session.config), jobs=jobs, pace=pace)
        workers = [make_worker(session.config, root, settings, finding_object, stop) for root in roots]
        told: list[str] = []
        while True:
            pauses = [worker.run() for worker in workers]
            if stop.is_set():
                break
            lines = [_describe(root.shared, pause, keep_on=keep_on) for root, pause in zip(roots, pauses, strict=True)]
            for line in lines:
                if line not in told:
                    session.output.say(line)
            told = lines
            is_work_ahead = any(one.rest is not None and not one.rest.is_surveyed for one in pauses)
            if not (keep_on or is_work_ahead) or stop.wait(min(one.wait_s for one in pauses)):
                break
        for root, pause in zip(roots, pauses, strict=True):
            rest = {} if pause.rest is None else asdict(pause.rest)
            due_at = None if pause.rest is None else iso_time(pause.rest.next_due_at)
            session.output.give("hub_work", {"tree": root.shared, "done": pause.done, **rest, "next_due_at": due_at})
    return ExitCode.INTERRUPTED if stop.is_set() else ExitCode.OK


def _describe(tree: str, pause: WorkerPause, *, keep_on: bool) -> str:
    """Return what was done on a tree, why there is nothing to do now, and what happens next."""
    from integrity.words.text import count, local_time

    begin, rest = f"{printable(tree)}: worked on {count(pause.done, 'part')}.", pause.rest
    if rest is None:
        return f"{begin} Nothing is due now."
    if not rest.is_surveyed:
        return f"{begin} Another machine lists its folders; waiting for parts to read."
    taken = f"other machines read {rest.taken:,} of {count(rest.parts, 'part')}" if rest.taken else ""
    if rest.next_due_at is None:
        return f"{begin} Nothing is left to do here: {taken or 'it has no parts'}."
    due = f"the next one is due {local_time(rest.next_due_at)}"
    next_step = "" if keep_on else " Then the service reads it, or `integrity hub work --keep-on`."
    return f"{begin} Nothing is due now: {'; '.join(filter(None, (taken, due)))}.{next_step}"
