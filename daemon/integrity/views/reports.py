"""Reports to a hub: what they say of findings, runs and actions, and what commands and pages say of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity import program
from integrity.errors import printable
from integrity.paths import path_fields
from integrity.views.objects import JsonObject, finding_object, iso_time
from integrity.views.roots import run_object
from integrity.views.sentence import Gravity, sum_up_status
from integrity.views.service import ServiceView
from integrity.views.text import count, local_time

if TYPE_CHECKING:
    from integrity.catalog.runs import ActionRecord, RunRecord
    from integrity.jobs.hub_status import HubStatus
    from integrity.jobs.status import Status
    from integrity.model import Finding
    from integrity.service.states import DaemonState

_STATES = {Gravity.GOOD: "ok", Gravity.WARNING: "gap", Gravity.PROBLEM: "problem"}


class HubWords:
    """Writes what is reported to a hub, as ``--json`` and the page write it."""

    def write_finding(self, finding: Finding) -> JsonObject:
        """Write a finding."""
        return finding_object(finding)

    def write_run(self, run: RunRecord, root: bytes) -> JsonObject:
        """Write a run."""
        counts = {
            "files_verified": run.counts.verified,
            "files_new": run.counts.new,
            "files_changed": run.counts.changed,
            "files_damaged": run.counts.damaged,
            "files_missing": run.counts.missing,
            "findings_opened": run.counts.findings_opened,
        }
        return {"id": run.id, "job": run.job.value, **path_fields("path", root), **(run_object(run) or {}), **counts}

    def write_action(self, action: ActionRecord) -> JsonObject:
        """Write an action."""
        done = action.action
        return {
            "id": action.id,
            "at": iso_time(action.at),
            "who": done.actor.who,
            "address": done.actor.address,
            "verb": done.verb.value,
            **({"root": None} if done.root is None else path_fields("root", done.root)),
            "findings": list(done.findings),
            "reason": done.reason,
            "outcome": done.outcome,
        }

    def sum_up(self, status: Status, state: DaemonState) -> tuple[str, str]:
        """Return the sentence that says how everything is, and how bad it is."""
        sentence = sum_up_status(status, ServiceView(state))
        return sentence.text, _STATES[sentence.gravity]


def find_complete_at(hub: HubStatus, live: ServiceView) -> int | None:
    """Return when the hub last had everything, seconds UTC; None: never."""
    known = (hub.complete_at, None if live.state is None else live.state.reported_at)
    return max((at for at in known if at is not None), default=None)


def describe_hub(hub: HubStatus | None, live: ServiceView) -> Iterator[str]:
    """Say when the hub last had everything, and what is wrong if it has not; nothing if none is configured."""
    if hub is None:
        return
    complete_at = find_complete_at(hub, live)
    had = "it never had everything yet" if complete_at is None else f"had everything {local_time(complete_at)}"
    yield f"Hub: {printable(hub.url)}; {had}"
    if hub.last_error is not None and hub.failing_since is not None:
        yield f"  problem    reports fail since {local_time(hub.failing_since)}: {printable(hub.last_error)}"
        yield f"             nothing is lost: {_waiting(hub)}; next try within 15 minutes"
    elif hub.waiting:
        yield f"  waiting    {_waiting(hub)}"
    if not live.may_run:
        yield f"  only the service reports, and none runs:  {program.command('service install --now')}"


def _waiting(hub: HubStatus) -> str:
    return f"{count(hub.waiting, 'change')} waiting to be reported"


def hub_object(hub: HubStatus, live: ServiceView) -> JsonObject:
    """Write how reports to the hub fare."""
    return {
        "url": hub.url,
        "complete_at": iso_time(find_complete_at(hub, live)),
        "waiting": hub.waiting,
        "is_failing": hub.failing_since is not None,
        "failing_since": iso_time(hub.failing_since),
        "error": hub.last_error,
    }
