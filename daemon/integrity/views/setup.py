"""What ``integrity setup`` says of what it found, proposes and did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.config.copy_urls import hide_address
from integrity.errors import show_path
from integrity.jobs.setup.look import ASSUMED_BYTES_PER_S, can_keep, open_seconds_per_day
from integrity.jobs.setup.proposal import PageChoice, PagePowers, PageReach
from integrity.model import Policy
from integrity.paths import path_fields
from integrity.units import Cron, format_duration, format_size, read_windows, spell_duration
from integrity.words.text import count, local_time

if TYPE_CHECKING:
    from integrity.config import Config, Mail, Web
    from integrity.jobs.setup.backups import LikelyCopy, LikelySeries
    from integrity.jobs.setup.folders import DataFolder
    from integrity.jobs.setup.look import Workload
    from integrity.jobs.setup.mail_ways import MailWays
    from integrity.model import Capability
    from integrity.words.text import JsonObject


_WITH_CHECKSUMS = frozenset({"btrfs", "zfs", "bcachefs"})
_DAY_S = 86_400


class FolderRow(NamedTuple):
    """A folder of the list: its number, and remarks about what it holds."""

    number: int
    folder: DataFolder
    size_bytes: int
    remarks: tuple[str, ...]


def list_folders(rows: Sequence[FolderRow]) -> Iterator[str]:
    names = [show_path(row.folder.path) for row in rows]
    sizes = [
        f"{format_size(row.size_bytes)} of {format_size(row.folder.size_bytes)}"
        if row.folder.size_bytes
        else "size unknown"
        for row in rows
    ]
    types = [row.folder.capability.fs_type for row in rows]
    widths = [max(map(len, column), default=0) for column in (names, types, sizes)]
    for row, name, fs_type, size in zip(rows, names, types, sizes, strict=True):
        cells = f"{name.ljust(widths[0])}  {fs_type.ljust(widths[1])}  {size.ljust(widths[2])}"
        yield f"  {row.number:>2}  {cells}  {describe_trust(row.folder.capability)}".rstrip()
        yield from (f"      {remark}" for remark in row.remarks)


def describe_trust(capability: Capability) -> str:
    if capability.is_remote:
        return "finds damage; a share does not always tell it from an edit"
    if not capability.has_ctime:
        return "finds damage; can't always tell it from an edit"
    words = "can prove bit rot"
    return f"{words}; has checksums of its own" if capability.fs_type in _WITH_CHECKSUMS else words


def describe_copy(copy: LikelyCopy) -> str:
    words = f"looks like a backup of {show_path(copy.of)}: has {copy.same_size} of {copy.checked} files"
    if copy.path != copy.holder:
        words = f"{show_path(copy.path)} {words}"
    lacks = [f"{copy.missing} missing"] if copy.missing else []
    lacks += [f"{copy.other_size} of another size"] if copy.other_size else []
    if lacks:
        why = "older, or left out?" if copy.missing else "out of date?"
        words += f" ({', '.join(lacks)}: {why})"
    return f"{words}; {copy.equal} of {copy.read} compared are equal"


def describe_series(series: LikelySeries) -> str:
    return f"{count(series.number, 'version')} of {show_path(series.of)}: {series.url.removeprefix('snapshots:')}"


def describe_workload(load: Workload, folders: Sequence[bytes], windows: str, verify_every_s: int) -> str:
    rate = load.rate_bytes_per_s or ASSUMED_BYTES_PER_S
    how = "measured" if load.rate_bytes_per_s else "assumed"
    places = ", ".join(map(show_path, folders))
    words = f"{places} ({load.device_name}): {format_size(load.size_bytes)} at {format_size(rate)}/s ({how})"
    words += f" = {_describe_time(load.duration_s)}"
    open_s, days = open_seconds_per_day(windows), load.days_needed(windows)
    if open_s is None or days is None:
        return words
    words += f"; {format_duration(open_s)} a day allowed: {count(days, 'day')}"
    if can_keep(load, windows, verify_every_s):
        return words
    return f"{words}: NOT within {format_duration(verify_every_s)}"


def describe_mail_ways(ways: MailWays) -> str:
    name, forwarded = ways.local_name, ways.forwarded_to
    mailbox = (
        f"mail for {name} goes to {forwarded}" if forwarded else f"mail for {name} stays here if nobody forwards it"
    )
    if ways.has_sendmail:
        return f"This machine sends mail through {ways.program}; {mailbox}."
    if ways.has_server:
        name = f" ({ways.program})" if ways.program else ""
        return f"A mail server answers on this machine{name}; {mailbox}."
    if ways.program:
        return f"{ways.program} needs rights that the service does not have, and no mail server answers here."
    return "No mail program was found, and no mail server answers here."


PUSH_EXPLANATION = (
    "ntfy://TOPIC (the app ntfy, free; choose a topic that nobody guesses), pover://USER_KEY@APP_TOKEN (Pushover),",
    "tgram://BOT_TOKEN/CHAT_ID (Telegram), other URLs of apprise, or none. Messages name files, and pass that service.",
)


def describe_push_so_far(urls: Sequence[str]) -> Iterator[str]:
    if urls:
        yield f"So far: {', '.join(map(hide_address, urls))}; keep leaves it so."


def describe_mail(mail: Mail, *, has_others: bool) -> str:
    """Say to whom mails go, and which way; ``has_others``: somebody is told in another way."""
    if not mail.to and has_others:
        return "none"
    if not mail.to:
        return f"none: nobody will be told of damage; look yourself: {program.command('status')}"
    way = "sendmail" if mail.transport == "sendmail" else f"{mail.host}:{mail.port}"
    return f"{', '.join(mail.to)}, through {way}"


def sum_up_config(config: Config, page: PageChoice) -> Iterator[str]:
    for root in config.roots:
        policy = "  (archive: no file may change)" if root.policy is Policy.ARCHIVE else ""
        yield f"  watch     {show_path(root.path)}{policy}"
    for copy in config.copies:
        behind = f"; may be {format_duration(copy.behind_s)} behind" if copy.behind_s else ""
        left = f"; leaves out {', '.join(copy.exclude)} on purpose" if copy.exclude else ""
        yield f"  compare   {show_path(copy.of)} with {copy.url}  (called {copy.name}{behind}{left})"
    yield f"  verify    every file within {format_duration(config.defaults.verify_every_s)}, in {config.schedule.scrub}"
    if config.defaults.inspect:
        yield "  test      new files by the checksums inside them (zip, PNG, FLAC, PDF, ...), after they were verified"
    has_others = bool(config.alerts.apprise or config.alerts.command)
    yield f"  mail      {describe_mail(config.mail, has_others=has_others)}"
    if config.alerts.apprise:
        yield f"  push      {', '.join(map(hide_address, config.alerts.apprise))}"
    if page.is_wanted:
        yield f"  page      {describe_page(config.web, page)}"


class NextSteps(NamedTuple):
    """
    What will happen, in seconds UTC; None where it happens at once.

    Args:
        record_s: how long recording takes at most.
        scrub_at: when the first window opens.
        compare_at: when the next comparison begins; None without copies.
        inspects: files are tested by the checksums inside them.
        alive_at: when the first sign of life is due; None without mail.
    """

    record_s: float
    scrub_at: int | None
    compare_at: int | None
    inspects: bool
    alive_at: int | None


def describe_next(steps: NextSteps) -> Iterator[str]:
    yield f"  now               files are recorded, which takes {_describe_time(steps.record_s)} or more"
    if steps.compare_at is not None:
        yield "                    then they are compared with the backups; what a backup lacks comes by mail"
    when = "now" if steps.scrub_at is None else local_time(steps.scrub_at)
    yield f"  {when:<16}  the first scrub: everything is read again from the disks"
    if steps.inspects:
        yield f"  {'':<16}  each is tested by the checksum inside it, too: a mail says what was damaged before today"
    if steps.compare_at is not None:
        yield f"  {local_time(steps.compare_at)}  the next comparison with the backups"
    if steps.alive_at is not None:
        yield f"  {local_time(steps.alive_at)}  a mail that all is well; before that only if something is wrong"


def describe_parity(size_bytes: int, duration_s: float) -> str:
    takes = f"5 % of it takes {format_size(size_bytes / 20)} and {_describe_time(duration_s)} or more to make"
    plan = program.command("protect FOLDER --folder DIR --plan")
    return f"Parity heals damage without a backup. {takes}; more exactly, before anything is written: {plan}"


def make_cron_times(windows: str) -> Iterator[tuple[str, str]]:
    """Yield the times of crontab(5) at which windows open, each with the option that ends the work when they close."""
    times = read_windows(windows)
    if isinstance(times, Cron):
        yield windows, ""
        return
    for span in times:
        days = "*" if len(span.days) == 7 else ",".join(str((day + 1) % 7) for day in span.days)
        hour, minute = divmod(span.start_min, 60)
        yield f"{minute} {hour} * * {days}", f" --time-limit {spell_duration(60 * (span.end_min - span.start_min))}"


def describe_folder_object(row: FolderRow, copies: Sequence[LikelyCopy | LikelySeries]) -> JsonObject:
    folder, capability = row.folder, row.folder.capability
    return {
        **path_fields("path", folder.path),
        "fs_type": capability.fs_type,
        "device": folder.device_name,
        "size_bytes": folder.size_bytes,
        "used_bytes": row.size_bytes,
        "has_ctime": capability.has_ctime,
        "is_remote": capability.is_remote,
        "copies_of": [show_path(copy.of) for copy in copies if copy.holder == folder.path],
    }


def _describe_time(duration_s: float) -> str:
    return "a moment" if duration_s < 1 else format_duration(duration_s)


POWERS_EXPLAINED = {
    PagePowers.LOOK: "look: it only shows.",
    PagePowers.DECIDE: "decide: also acknowledge, pause, verify, accept; changes of records need the password again.",
    PagePowers.REPAIR: "repair: also repair files from backups; the service may then write in the watched folders.",
}

_POWERS = {
    PagePowers.LOOK: "it only shows",
    PagePowers.DECIDE: "records can be changed there",
    PagePowers.REPAIR: "records and files can be changed there",
}


def explain_reach(web: Web, address: str, login: str) -> Iterator[str]:
    """Yield what the answers mean, a line each. ``address``: in the network, or empty; ``login``: USER@HOST for ssh."""
    port = web.listen.rpartition(":")[2]
    yield "none: you look with the command status."
    yield f"local: opens no port in your network; from another machine: {_spell_tunnel(port, login)}"
    if address:
        yield (
            f"lan: at https://{address}:{port}/ for all who reach this machine and know the password; encrypted, with a"
            " certificate of its own, of which browsers warn once."
        )


def describe_page(web: Web, choice: PageChoice) -> str:
    reach = "in the network" if choice.reach is PageReach.LAN else "on this machine only"
    return f"{web.url}/  ({reach}; {_POWERS[choice.powers]})"


class PageFacts(NamedTuple):
    """
    How a page can be reached.

    Args:
        login: USER@HOST for ssh.
        certificate_ends_at: when the certificate that it made ends; None if it made none.
        start: the command that starts it; empty: it runs.
    """

    web: Web
    choice: PageChoice
    login: str
    certificate_ends_at: datetime | None
    fingerprint: str
    start: str
    has_password: bool


def describe_page_access(facts: PageFacts) -> Iterator[str]:
    web = facts.web
    yield f"The page:           {web.url}/"
    if facts.choice.reach is PageReach.LOCAL:
        tunnel = _spell_tunnel(web.listen.rpartition(":")[2], facts.login)
        yield f"From elsewhere:     {tunnel}    (then open the page)"
    if facts.certificate_ends_at is not None:
        yield f"Its certificate:    valid until {facts.certificate_ends_at:%Y-%m-%d}; a start of the page renews it"
        yield "                    Browsers warn of it, for nobody else signed it; compare its SHA-256:"
        half = len(facts.fingerprint) // 2 + 1
        yield f"                    {facts.fingerprint[:half]}"
        yield f"                    {facts.fingerprint[half:]}"
    if facts.start:
        yield f"To start it:        {facts.start}    (no service runs it)"
    elif not facts.has_password:
        yield "Its password:       journalctl -u integrity-web -n 5    (shows the link that sets it)"
    if facts.has_password:
        yield f"A new password:     {program.command('web --set-password')}"


def _spell_tunnel(port: str, login: str) -> str:
    return f"ssh -L {port}:127.0.0.1:{port} {login}"
