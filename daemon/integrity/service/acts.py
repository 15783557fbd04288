"""
Carry out what a person decided and asked for through the control socket, as the commands do.

Work that reads or writes files is queued for its device, as other jobs are; the rest is done in the caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity import program
from integrity.alerts.channels import describe_no_channels, send_test
from integrity.catalog.outbox import note_tests
from integrity.catalog.runs import Action, record_action
from integrity.errors import AppError, ConfigError, RootSuspended, printable, show_path
from integrity.jobs import runner
from integrity.jobs.admin.accept import (
    AcceptedAs,
    FileChange,
    accept_file,
    accept_folder,
    find_file_targets,
    plan_folders,
)
from integrity.jobs.admin.findings import acknowledge_findings, mute_findings
from integrity.jobs.admin.roots import set_paused
from integrity.jobs.context import Context
from integrity.jobs.repair.plan import FilePlan, PlanOutcome
from integrity.jobs.repair.run import RepairOptions
from integrity.jobs.repair.targets import find_wanted
from integrity.model import ActionVerb, Job
from integrity.service.control.requests import Act, ActDone, ActVerb, RepairPlanned
from integrity.service.device_queue import LogReport

if TYPE_CHECKING:
    from integrity.jobs.repair.apply import RepairedFile
    from integrity.jobs.report import Summary
    from integrity.service.control.requests import Answered, Ticket
    from integrity.service.dispatch import Dispatcher, ServiceContext

WritePlan = Callable[[FilePlan], RepairPlanned]
"""Writes a plan as `integrity repair` shows it."""


@dataclass(frozen=True, slots=True)
class VerbHandling:
    """
    How a verb is carried out.

    Args:
        do: does it in a thread that may wait, or raises AppError.
        job: the work is queued, and shown as this job; None: it is done at once.
    """

    do: Callable[[Context, Act], ActDone | FilePlan]
    job: Job | None = None


class ActRunner:
    """
    Carry out acts. Any thread may use it.

    Args:
        acted: called after each act that was done at once; queued ones end as other work does.
    """

    def __init__(
        self, service: ServiceContext, dispatcher: Dispatcher, write_plan: WritePlan, acted: Callable[[], None]
    ) -> None:
        self._service = service
        self._dispatcher = dispatcher
        self._write_plan = write_plan
        self._acted = acted

    def act(self, act: Act, answered: Answered) -> Ticket | None:
        """Carry out an act, or queue it; see ``Handler``."""
        handling = _HANDLINGS[act.verb]
        if handling.job is not None:
            assert act.path is not None
            return self._queue(handling, handling.job, act.path, act, answered)
        service = self._service
        with service.open_catalog() as catalog:
            context = Context(
                catalog,
                service.config(),
                LogReport(),
                clock=service.clock,
                monotonic=service.monotonic,
                actor=act.actor,
            )
            answer = self._do(handling, context, act)
        self._acted()
        answered(answer)
        return None

    def _queue(self, handling: VerbHandling, job: Job, path: bytes, act: Act, answered: Answered) -> Ticket:
        answers: list[ActDone | RepairPlanned] = []

        def do(context: Context) -> None:
            context.actor, context.may_add_roots = act.actor, False
            answers.append(self._do(handling, context, act))

        def ended(result: Summary | AppError) -> None:
            if isinstance(result, AppError):
                answered(result)
            else:
                answered(answers[0] if answers else AppError("it was canceled before it began; nothing was changed"))

        return self._dispatcher.act(job, path, do, ended)

    def _do(self, handling: VerbHandling, context: Context, act: Act) -> ActDone | RepairPlanned:
        done = handling.do(context, act)
        return self._write_plan(done) if isinstance(done, FilePlan) else done


def _acknowledge(context: Context, act: Act) -> ActDone:
    found = acknowledge_findings(context.catalog, act.ids, now=context.now(), actor=act.actor)
    return ActDone(f"findings acknowledged: {len(found):,}; no reminders until they change")


def _mute(context: Context, act: Act) -> ActDone:
    assert act.until is not None
    found = mute_findings(context.catalog, act.ids, act.until, now=context.now(), actor=act.actor)
    return ActDone(f"findings muted: {len(found):,}; no reminders until then, or until they change")


def _pause(context: Context, act: Act) -> ActDone:
    root = set_paused(context.catalog, _get_path(act), is_paused=True, now=context.now(), actor=act.actor)
    return ActDone(f"{show_path(root.path)}: paused; nothing there is checked until it is resumed")


def _resume(context: Context, act: Act) -> ActDone:
    root = set_paused(context.catalog, _get_path(act), is_paused=False, now=context.now(), actor=act.actor)
    return ActDone(f"{show_path(root.path)}: resumed")


def _accept(context: Context, act: Act) -> ActDone:
    path = _get_path(act)
    wanted = frozenset(
        ([FileChange.CHANGES] if act.changes else []) + ([FileChange.DELETIONS] if act.deletions else [])
    )
    if wanted:
        (plan,) = plan_folders(context.catalog, [path], wanted)
        changed, removed, _ = accept_folder(context, plan, act.reason)
        left_out = f"; damaged files left out: {plan.left_out:,}" if plan.left_out else ""
        return ActDone(f"{show_path(path)}: accepted {changed:,} changed and {removed:,} deleted files{left_out}")
    (target,) = find_file_targets(context.catalog, [path])
    done = accept_file(context, target, act.reason, seen=act.seen)
    if done.outcome is AcceptedAs.FAILED:
        raise AppError(f"{show_path(path)}: not accepted: {printable(done.message)}")
    what = "its present content is the baseline" if done.outcome is AcceptedAs.CONTENT else "it is gone, and its record"
    return ActDone(f"{show_path(path)}: accepted: {what}; findings resolved: {done.findings_resolved:,}")


def _plan_repair(context: Context, act: Act) -> FilePlan:
    plan, _ = _run_repair(context, act, applies=False)
    return plan


def _repair(context: Context, act: Act) -> ActDone | FilePlan:
    plan, done = _run_repair(context, act, applies=True)
    if act.seen and act.seen != plan.token:
        return plan  # nothing was done: the person decided about another plan
    name = show_path(_get_path(act))
    if done is None and plan.outcome is PlanOutcome.WHOLE:
        return ActDone(
            f"{name}: intact: every block is as recorded; nothing was changed. To close its finding, scrub it"
        )
    if done is None:
        why = printable(plan.reason or "no copy has all of the damaged blocks intact")
        raise AppError(f"{name}: can't be repaired: {why}; plan the repair to see the copies that were asked")
    if not done.is_repaired:
        command = program.command("repair", _get_path(act), "--apply")
        raise AppError(
            f"{name}: not repaired: {printable(done.message)}; if the service may not write there, run this as root:"
            f" {command}; or let the service repair from now on:"
            f" {program.command('service install --allow-repair --now')}"
        )
    kept = f"; the damaged file is kept as {show_path(done.kept)}" if done.kept is not None else ""
    remark = f"; {printable(done.message)}" if done.message else ""
    return ActDone(f"{name}: repaired, and verified by reading it from disk{kept}{remark}")


def _run_repair(context: Context, act: Act, *, applies: bool) -> tuple[FilePlan, RepairedFile | None]:
    """Plan the repair of one file from all known copies, and carry it out if asked to."""
    path = _get_path(act)
    wanted = find_wanted(context.catalog, context.config, [path], (), None)
    if wanted[0].is_folder:
        raise ConfigError(
            f"{show_path(path)}: is a folder; name one file, or repair all of it with:"
            f" {program.command('repair', path)}"
        )
    plans: list[FilePlan] = []
    done: list[RepairedFile] = []
    runner.repair(context, wanted, RepairOptions(applies=applies, token=act.seen), plans.append, done.append)
    if context.stop.is_set() and not done:
        raise AppError(f"{show_path(path)}: the repair was interrupted; nothing was changed, try again")
    if not plans:
        root = wanted[0].target.root.path
        raise RootSuspended(
            f"{show_path(root)}: is suspended, so nothing in it is repaired; see: {program.command('status')}"
        )
    return plans[0], done[0] if done else None


def _test_alert(context: Context, act: Act) -> ActDone:
    results = send_test(context.config, clock=context.clock)
    if not results:
        raise ConfigError(describe_no_channels())
    said = "; ".join(f"{name}: {'sent' if error is None else f'FAILED: {error}'}" for name, error in results)
    now = context.now()
    with context.catalog.transaction() as connection:
        note_tests(connection, results, now)
        record_action(connection, Action(act.actor, ActionVerb.TEST_ALERT, said), now)
    if any(error is not None for _, error in results):
        raise AppError(f"a test alert could not be sent: {printable(said)}")
    return ActDone(f"test alert: {printable(said)}")


def _get_path(act: Act) -> bytes:
    assert act.path is not None
    return act.path


_HANDLINGS: Mapping[ActVerb, VerbHandling] = {
    ActVerb.ACK: VerbHandling(_acknowledge),
    ActVerb.MUTE: VerbHandling(_mute),
    ActVerb.PAUSE: VerbHandling(_pause),
    ActVerb.RESUME: VerbHandling(_resume),
    ActVerb.ACCEPT: VerbHandling(_accept, Job.SCAN),
    ActVerb.PLAN_REPAIR: VerbHandling(_plan_repair, Job.REPAIR),
    ActVerb.REPAIR: VerbHandling(_repair, Job.REPAIR),
    ActVerb.TEST_ALERT: VerbHandling(_test_alert),
}
