"""Parts of alerts by themselves: words, mails, programs that get them, and which way mails leave."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from html import escape
from pathlib import Path

import pytest

from integrity.alerts.apprise import AppriseChannel
from integrity.alerts.channels import find_problems, make_channels
from integrity.alerts.command import CommandChannel, run_program
from integrity.alerts.compose import Composer, sum_up
from integrity.alerts.layout import MOST_LINES
from integrity.alerts.mail import SendmailChannel, address_of, is_usable, make_mail
from integrity.alerts.smtp import read_password
from integrity.catalog import outbox
from integrity.catalog.connection import Catalog, Connection
from integrity.catalog.notified import PendingIncident
from integrity.catalog.outbox import Message
from integrity.config import Alerts, Config, Mail, MailTransport
from integrity.errors import CatalogLocked, ChannelError
from integrity.jobs.messages import seen_in_data
from integrity.kinds import COVERAGE_PROBLEMS, INTEGRITY_PROBLEMS
from integrity.model import Certainty, Finding, FindingId, FindingKind, FindingState
from integrity.words.findings import damage
from support.alerting import HOST, Teller
from support.catalogs import MIB, NOW, CatalogBox
from support.waiting import wait_until

ROT = Finding(
    id=FindingId(7),
    kind=FindingKind.ROT,
    state=FindingState.OPEN,
    root=b"/srv/photos",
    path=b"a",
    message="bit rot",
    opened_at=NOW,
    updated_at=NOW,
    certainty=Certainty.PROVEN,
    blocks=(3,),
    block_size_bytes=MIB,
)
MAIL = Mail(to=("me@example.org",), transport=MailTransport.SENDMAIL)


def compose(*findings: Finding) -> Message:
    return Composer(HOST).incident(
        [PendingIncident(finding, is_change=False, coalesced=0) for finding in findings], NOW
    )


def script(path: Path, text: str) -> str:
    """Write a shell script, as sendmail or the user's command may be one."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


# Words


def make_missing(count: int) -> list[Finding]:
    """Make what a backup leaves behind that did not run: files that it does not have."""
    return [
        ROT._replace(
            id=FindingId(100 + number),
            kind=FindingKind.COPY_MISSING,
            path=b"d/%d .jpg" % number,
            message="the copy nightly does not have it",
            step="run the backup again, then compare",
            command=f"integrity compare '/srv/photos/d/{number} .jpg' --with nightly",
            certainty=None,
            blocks=(),
            copy="nightly",
        )
        for number in range(count)
    ]


def test_finding_about_a_copy_names_the_copy() -> None:
    """In the subject, beside the file, and in the JSON for programs."""
    message = compose(*make_missing(1))

    assert "[integrity] nas: 1 photo missing from the backup nightly" == message.subject
    assert "Missing from the backup  [finding 100]  in the copy nightly  /srv/photos/d/0 .jpg\n" in message.body
    assert "run the backup again, then compare\n" in message.body
    assert "next:  integrity compare '/srv/photos/d/0 .jpg' --with nightly\n" in message.body
    assert '"copy":"nightly"' in message.facts
    assert '"copy":null' in compose(ROT).facts


MISSING = make_missing(1)[0]
AWAY = ROT._replace(kind=FindingKind.COPY_UNREADABLE, path=None, copy="nightly", certainty=None, blocks=())
LATE = AWAY._replace(kind=FindingKind.OVERDUE, copy="s3://bucket/photos\n")
BAD = ROT._replace(kind=FindingKind.COPY_DIFFERS, copy="nightly", message="damaged; your original is unchanged (read)")
UNSURE = BAD._replace(message="neither is right")
SUSPENDED = ROT._replace(kind=FindingKind.ROOT_SUSPENDED, root=b"/srv/tank", path=None, blocks=())
WORST_FIRST = ("overdue", "missing", "rot", "silent_rewrite", "unstable")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([one._replace(copy="backup") for one in make_missing(14)], "14 photos missing from the backup"),
        ([AWAY._replace(copy="backup")], "backup can't be read"),
        ([AWAY], "backup nightly can't be read"),
        ([LATE], r"1 comparison with the backup s3://bucket/photos\n overdue"),
        (
            [ROT._replace(kind=FindingKind(kind), path=kind.encode()) for kind in WORST_FIRST],
            "2 damaged files, 1 file missing, 2 more in photos",
        ),
        (
            [
                ROT._replace(kind=FindingKind(kind), path=b"%d" % number)
                for number, kind in enumerate(("rot", "changed", *["missing"] * 10, "unstable"))
            ],
            "1 damaged file, 1 file changed, 10 files missing, 1 more in photos",
        ),
        ([ROT._replace(root=b"/")], "1 damaged file in /"),
        ([ROT, ROT._replace(root=b"/b")], "2 damaged files in photos and 1 more folder"),
        ([BAD], "BACKUP of 1 file is damaged, original unchanged"),
        ([BAD, UNSURE], "BACKUP of 2 files are damaged (nightly)"),
        ([UNSURE], "BACKUP of 1 file is damaged (nightly)"),
        (
            [SUSPENDED._replace(message="/srv/tank is empty, but 12 files are recorded")],
            "/srv/tank is empty: not being checked",
        ),
        (
            [SUSPENDED._replace(message="/srv/tank is not the recorded folder")],
            "/srv/tank is not the recorded folder: not being checked",
        ),
        ([*make_missing(1000), MISSING._replace(path=None)], "1,000 files missing from the backup nightly, and more"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_subject_says_the_worst_first_and_counts_the_rest(found: list[Finding], expected: str) -> None:
    """A copy that is called backup is not named twice, one that is away is no file that was not read."""
    assert expected == sum_up(found)


def test_thousands_of_findings_about_one_copy_are_one_entry() -> None:
    """With their number, some examples, and what to do; damaged files are not pushed aside."""
    body = compose(*make_missing(5000), ROT).body

    assert "nas: 1 damaged file in photos; 5,000 photos missing from the backup nightly" == body.split("\n")[0]
    assert "5,000 findings: Missing from the backup, in the copy nightly  /srv/photos\n" in body
    assert "run the backup again, then compare\n" in body
    assert "next:  integrity compare /srv/photos --with nightly\n" in body
    assert body.count("such as /srv/photos/d/") == 3
    assert body.index("DAMAGED (bit rot)") < body.index("5,000 findings")
    assert "more: integrity findings" not in body
    assert len(body.split("\n")) < 30
    others = [one._replace(copy="weekly") for one in make_missing(5)]
    odd = [one._replace(step="keep older backups") for one in make_missing(5)]
    assert 15 == compose(*make_missing(5), *others, *odd).body.count("  [finding ")  # few are told one by one


def test_files_gone_from_one_folder_are_one_entry() -> None:
    """With the command for all of them, and the copy that has them if one is known."""
    gone = [
        ROT._replace(
            id=FindingId(number),
            kind=FindingKind.MISSING,
            path=b"Album 2/%d.mp3" % number,
            message="The file is gone from an archive.",
            certainty=None,
            blocks=(),
        )
        for number in range(9)
    ]
    body = compose(*gone, ROT).body
    assert "9 findings: MISSING  /srv/photos/Album 2\n" in body
    assert "next:  integrity repair '/srv/photos/Album 2' --from COPY\n" in body
    known = [one._replace(step="bring the file back", command="integrity repair FILE --from 'the nas'") for one in gone]
    assert "next:  integrity repair '/srv/photos/Album 2' --from 'the nas'\n" in compose(*known, ROT).body


def test_mail_about_several_files_does_not_open_with_the_command_of_one() -> None:
    """Those about one copy open with the comparison of all; others lead to the list."""
    missing = compose(*make_missing(2)).body
    assert "What to do: run the backup again, then compare:  integrity compare /srv/photos --with nightly\n" in missing
    mixed = compose(ROT, *make_missing(1)).body
    assert "What to do: see the next step of each below; all are listed by:  integrity findings\n" in mixed


def test_what_shows_in_the_data_separates_no_findings() -> None:
    """Damaged backups with a lost block each, in other places, say the same; a single one says where."""
    damaged = [
        one._replace(kind=FindingKind.COPY_DIFFERS, message="It is damaged." + seen_in_data(f"Byte {one.id} differs."))
        for one in make_missing(40)
    ]
    body = compose(*damaged).body

    assert "40 findings: BACKUP DAMAGED, in the copy nightly" in body
    assert "It is damaged.\n" in body
    assert "Seen in the data" not in body
    assert "It is damaged. Seen in the data: Byte 100 differs." in compose(damaged[0]).body


def test_end_of_thousands_is_one_entry() -> None:
    """An all-clear has a line for them, too."""
    over = [one._replace(resolution="the copy has it again") for one in make_missing(700)]
    message = Composer(HOST).all_clear(over, 0, NOW)

    assert "all clear: 700 findings resolved, none open" in message.subject
    assert "700 findings: Missing from the backup, in the copy nightly" in message.body
    assert "the copy has it again" in message.body
    assert "run the backup again" not in message.body
    assert "next:" not in message.body


@pytest.mark.parametrize("kind", sorted(INTEGRITY_PROBLEMS | COVERAGE_PROBLEMS))
def test_every_kind_that_is_told_has_words_of_its_own(kind: FindingKind) -> None:
    """No mail says "1 finding"."""
    assert "finding" not in sum_up([ROT._replace(kind=kind)])


def test_damage_without_a_known_copy_says_so() -> None:
    """One of two has a copy, or none has; the number of all files may be unknown."""
    repairable = ROT._replace(step="restore the damaged part", command="integrity repair /srv/photos/a --from nightly")
    half = compose(repairable, ROT._replace(path=b"b")).body

    assert "\n2 files are affected; good copies exist of 1 of them.\n" in half
    assert "\n1 file is affected; no good copy is known yet.\n" in compose(ROT).body


@pytest.mark.parametrize("page_url", ["", "https://nas.example/<x>"])
def test_findings_link_to_the_page(page_url: str) -> None:
    """Where there is one; in the text and in the HTML, as an attribute that nothing breaks out of."""
    message = Composer(HOST, page_url=page_url).incident([PendingIncident(ROT, is_change=False, coalesced=0)], NOW)

    assert bool(page_url) == (f"page:  {page_url}/findings/{ROT.id}" in message.body)
    assert bool(page_url) == (f'<a href="{escape(page_url)}/findings/{ROT.id}">' in message.html)
    assert "<x>" not in message.html


def test_many_blocks_are_joined_and_cut() -> None:
    """Neighbours are one span, five spans are enough."""
    many = ROT._replace(blocks=(1, 2, 3, *range(5, 40, 2)), ranges=((0, 1),))

    assert damage(many) == ("blocks 1-3, 5, 7, 9, 11 and 14 more (counted from 0, 1 MiB each): bytes 0 to 0")
    assert damage(ROT._replace(blocks=())) is None


def test_longest_name_makes_no_longer_mail() -> None:
    """A name of 4,096 odd bytes in each of 1,000 findings: 200 lines, none beyond measure."""
    message = compose(*(ROT._replace(path=b"\x01" * 4096, id=FindingId(n)) for n in range(1000)))

    assert len(message.body.splitlines()) <= MOST_LINES
    assert max(map(len, message.body.splitlines())) <= 2000
    assert len(message.subject) <= 250
    assert len(message.html) < 1 << 20


def test_host_name_may_be_anything() -> None:
    """A host that is called like no host makes neither a bad header nor a bad Message-ID."""
    message = Composer("näs\nX: y.example").test(NOW)
    mail = make_mail(message, sender="i@nas", to=["me@example.org"])

    assert message.message_id.endswith("@n-s-X--y.example>")
    assert mail["X"] is None


def test_mail_lines_fit_into_smtp() -> None:
    """No line is longer than the 998 bytes of RFC 5322, whatever the text's is."""
    message = compose(ROT._replace(path=b"\xff" * 4000))
    raw = make_mail(message, sender="i@nas", to=["me@example.org"]).as_bytes()

    assert max(map(len, raw.split(b"\r\n"))) <= 998


def test_address_may_have_a_name_and_nothing_else() -> None:
    """As it stands in mails; a line break makes no header."""
    for text in ("me@example.org", "Me Myself <me@example.org>", '"M, I" <me@example.org>'):
        assert "me@example.org" == address_of(text)
    for text in ("", "a b@c d", "x@y\nBcc: z@y", "<>", "a@b, c@d", "a@b <"):
        with pytest.raises(ChannelError, match=r"\[mail\]"):
            address_of(text)
    with pytest.raises(ChannelError, match=r"\[mail\] from or to"):
        make_mail(compose(ROT), sender="i@nas", to=["x@y\nBcc: z@y"])


# Programs


def test_sendmail_gets_the_whole_mail(tmp_path: Path) -> None:
    """With -i -t, recipients in the header, lines as the system ends them."""
    program = script(tmp_path / "sendmail", f'echo "$@" > {tmp_path}/args; cat > {tmp_path}/mail')
    SendmailChannel(MAIL, HOST, program).send(compose(ROT))
    raw = (tmp_path / "mail").read_bytes()

    assert "-i -t\n" == (tmp_path / "args").read_text()
    assert b"\nTo: me@example.org\n" in raw
    assert b"From: integrity@nas.example.org\n" in raw
    assert b"\r" not in raw


@pytest.mark.parametrize(("code", "is_permanent"), [(75, False), (69, False), (67, True), (78, True), (1, False)])
def test_exit_code_and_stderr_of_sendmail_are_told(tmp_path: Path, code: int, is_permanent: bool) -> None:
    """sysexits.h says which of them will not pass."""
    program = script(tmp_path / "sendmail", f"echo queue full >&2; exit {code}")
    with pytest.raises(ChannelError, match=f"exit code {code}: queue full") as caught:
        SendmailChannel(MAIL, HOST, program).send(compose(ROT))

    assert caught.value.is_permanent == is_permanent


def test_program_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    """After its time, and nothing of it is left."""
    program = script(tmp_path / "hang", f"sleep 300 & echo $! > {tmp_path}/pid; wait")
    with pytest.raises(ChannelError, match=r"did not end within 2 s"):
        CommandChannel((program,), timeout_s=2).send(compose(ROT))
    pid = int((tmp_path / "pid").read_text())

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until(is_gone, "the end of what it started")


def test_program_that_leaves_something_running_is_not_waited_for() -> None:
    """What a command leaves in the background may keep its streams open."""
    assert (0, "told") == run_program(["sh", "-c", "echo told >&2; sleep 12 &"], b"", timeout_s=10)


def test_program_that_reads_nothing_may_succeed() -> None:
    """A full pipe would stop it, or us."""
    assert 0 == run_program(["true"], b"x" * 10**6).code


# Which way


def test_sendmail_is_used_where_it_can_work(tmp_path: Path) -> None:
    """Not if it is missing, nor if its helpers may gain no privileges, unless it needs none."""
    program = script(tmp_path / "sendmail", "exit 0")
    client = script(tmp_path / "msmtp", "exit 0")
    link = str(tmp_path / "link")
    os.symlink(client, link)
    free, bound = ((tmp_path / name, f"Name:\tx\nNoNewPrivs:\t{name}\nSeccomp:\t0\n") for name in "01")
    for path, text in (free, bound):
        path.write_text(text)

    assert is_usable(program, status_file=str(free[0]))
    assert not is_usable(program, status_file=str(bound[0]))
    assert is_usable(link, status_file=str(bound[0]))
    os.chmod(client, 0o2755)
    assert not is_usable(link, status_file=str(bound[0]))
    assert not is_usable(str(tmp_path / "nothing"), status_file=str(free[0]))


def test_no_new_privileges_are_seen_in_a_real_process(tmp_path: Path) -> None:
    """As systemd's NoNewPrivileges= sets it."""
    program = script(tmp_path / "sendmail", "exit 0")
    code = f"from integrity.alerts.mail import is_usable; print(is_usable({program!r}))"
    done = subprocess.run(
        ["setpriv", "--no-new-privs", sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "False\n" == done.stdout


@pytest.mark.parametrize(
    ("mail", "expected"),
    [
        (Mail(), []),
        (Mail(to=("a@b", "c@d", "a@b")), ["sendmail"]),
        (Mail(to=("a@b", "c@d"), host="mx"), ["mail:a@b", "mail:c@d"]),
        (Mail(to=("a@b", "c@d", "a@b"), transport=MailTransport.SMTP), ["mail:a@b", "mail:c@d"]),
        (Mail(to=("a@b",), host="mx", transport=MailTransport.SENDMAIL), ["sendmail"]),
    ],
)
def test_auto_means_sendmail_unless_a_server_is_named(tmp_path: Path, mail: Mail, expected: list[str]) -> None:
    """Each recipient of a server is a channel, sendmail takes care of all; without it, the server is this machine."""
    program = script(tmp_path / "sendmail", "exit 0")
    config = Config(catalog=b"/c", mail=mail)

    assert expected == [channel.name for channel in make_channels(config, sendmail_program=program)]
    without = make_channels(config, sendmail_program=str(tmp_path / "none"))
    assert mail.transport is not MailTransport.AUTO or [f"mail:{to}" for to in dict.fromkeys(mail.to)] == [
        channel.name for channel in without
    ]


def test_names_of_channels_hold_no_secrets() -> None:
    """Two services of a kind differ, and keep their names; without a scheme, any part of a URL may be the token."""
    config = Config(catalog=b"/c", alerts=Alerts(apprise=("json://secret@a", "json://secret@b", "json://secret@a")))
    names = [channel.name for channel in make_channels(config)]

    assert 2 == len(set(names)) == len(names)
    assert "secret" not in "".join(names)
    assert names == [channel.name for channel in make_channels(config)]
    mistyped = [AppriseChannel(url).name for url in ("tok-en", "tok-en:x", "tok-en json://a")]
    assert "tok-en" not in "".join(mistyped)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # apprise's own import, on Python 3.11 and 3.12
def test_url_that_apprise_does_not_know_is_refused() -> None:
    """For good, without showing it."""
    with pytest.raises(ChannelError, match=r"nosuch://\(hidden\) can't be used") as caught:
        AppriseChannel("nosuch://secret").send(compose(ROT))

    assert caught.value.is_permanent
    assert "secret" not in str(caught.value)


def test_without_the_extra_the_message_says_what_to_install() -> None:
    """A process that can't import apprise names the extra, at the config check."""
    code = (
        "import sys; sys.modules['apprise'] = None\n"
        "from integrity.alerts.apprise import find_problem; print(find_problem('json://x'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "-m pip install" in done.stdout, done.stderr


def test_password_is_the_first_line(tmp_path: Path) -> None:
    """Without its end; who has none, an empty or an odd one is told so."""
    place = tmp_path / "password"
    mail = Mail(user="me", password_file=bytes(place))
    with pytest.raises(ChannelError, match="No such file"):
        read_password(mail)
    place.write_bytes(b"se cret\r\nmore\n")
    assert "se cret" == read_password(mail)
    for bad, complaint in ((b"\n", "is empty"), ("pä".encode(), "ASCII")):
        place.write_bytes(bad)
        with pytest.raises(ChannelError, match=complaint):
            read_password(mail)
    with pytest.raises(ChannelError, match="smtp-password"):
        read_password(Mail(user="me"), get_variable=lambda _: None)


def test_problems_of_a_config_are_found_without_sending(tmp_path: Path) -> None:
    """A missing password file and a recipient that is not an address, both at once."""
    missing = bytes(tmp_path / "missing")
    mail = Mail(to=("ok@example.org", "a b"), host="mx", user="me", password_file=missing)
    problems = find_problems(Config(catalog=b"/c", mail=mail))

    assert 2 == len(problems)
    assert [] == find_problems(Config(catalog=b"/c", mail=Mail(to=("ok@example.org",))))


# Delivery, with a channel of our own


class Counting:
    """A channel that counts, and may do something on the way."""

    name = "counting"

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.db: Connection | None = None

    def send(self, message: Message) -> None:
        """Take it."""
        self.messages.append(message)
        if self.db is not None:
            self.db.run("BEGIN IMMEDIATE")


def test_message_that_was_taken_is_not_sent_again_when_the_catalog_was_locked(box: CatalogBox) -> None:
    """What could not be written down is remembered, and written down later."""
    channel = Counting()
    box.catalog.close()
    box.catalog = Catalog.open(box.path, writes=True, busy_timeout_s=0.01)
    teller = Teller(box, Config(catalog=b"/c", alerts=Alerts(group_s=0)), channels=[channel])
    teller.find(b"a")
    with closing(Connection(box.path)) as db:
        channel.db = db
        with pytest.raises(CatalogLocked):
            teller.tick()
        with pytest.raises(CatalogLocked):
            teller.tick()
        db.run("ROLLBACK")
        channel.db = None
        teller.tick(after=60)

    assert 1 == len(channel.messages)
    with box.catalog.read() as c:
        (state,) = outbox.channel_states(c)
    assert (0, NOW) == (state.waiting, state.good_at)


def test_pause_ends_when_something_is_due(box: CatalogBox) -> None:
    """At most a minute, less if a group closes or a retry is due sooner."""
    teller = Teller(box, Config(catalog=b"/c", alerts=Alerts(group_s=20)), channels=[Counting()])
    assert 60 == teller.tick()
    teller.find(b"a")
    assert 20 == teller.tick()
    assert 5 == teller.tick(after=15)
    assert 60 == teller.tick(after=5)
