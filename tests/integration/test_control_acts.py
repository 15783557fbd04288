"""What a person has done through the control socket: by whom, by the same rules as the commands, and in the history."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog, Connection
from integrity.catalog.runs import Action, find_actions
from integrity.errors import AppError, ConfigError
from integrity.jobs.byte_pattern import Side
from integrity.jobs.picture_type import Picture
from integrity.model import ActionVerb, Actor, Job
from integrity.service.control.client import DaemonClient
from integrity.service.control.requests import Act, ActDone, ActVerb, AskPicture, JobRequest, RepairPlanned
from integrity.service.control.socket import connect
from integrity.service.control.users import PAGE_USER
from integrity.service.control.wire import (
    REQUEST_LIMIT,
    Answer,
    AskAhead,
    Failure,
    JobAccepted,
    LendRoots,
    Question,
    StopJob,
    Submit,
    encode,
)
from support import AnyPath
from support.bitrot import flip_bit, read_direct
from support.cli import Box
from support.loopfs import LoopFS
from support.planted import age, plant
from support.privileges import NOBODY, as_nobody, let_in
from support.repairs import BLOCK, blocks, leftovers
from support.service import Service
from support.shapes import damage
from support.waiting import wait_until

pytestmark = pytest.mark.root

PAGE = NOBODY - 2
"""The uid of the page's user, as the service sees it."""

SOMEBODY = NOBODY - 1
ALICE = Actor("alice", "192.0.2.7")
NEVER = '[schedule]\nscrub = "0 0 29 feb *"\n[defaults]\nblock_size = "64KiB"\n'
ON = "[web]\nactions = true\n"
_TIMEOUT_S = 60.0


def make_wrapper(folder: Path, *, read_only: Path | None = None) -> Sequence[AnyPath]:
    """
    Return a command that runs the service where the page's user exists: /etc/passwd of a mount namespace has it.

    Args:
        read_only: a folder in which the service can't write, as systemd arranges it for its unit.
    """
    passwd = folder / "passwd"
    users = Path("/etc/passwd").read_text(encoding="utf-8")
    passwd.write_text(f"{users}{PAGE_USER}:x:{PAGE}:{PAGE}::/nonexistent:/usr/sbin/nologin\n", encoding="utf-8")
    script = 'mount --bind "$0" /etc/passwd && '
    if read_only is not None:
        place = shlex.quote(str(read_only))
        script += f"mount --bind {place} {place} && mount -o remount,ro,bind {place} && "
    return "unshare", "-m", "sh", "-c", f'{script}exec "$@"', passwd


@contextmanager
def serving(box: Box, root: Path, folder: Path, config: str, *, read_only: Path | None = None) -> Iterator[Service]:
    """Serve a recorded root to all users, as to a group that all of them are in."""
    box.configure(f'{config}[[root]]\npath = "{root}"\n{NEVER}')
    with Service(box, wrapper=make_wrapper(folder, read_only=read_only)) as service:
        service.wait_begun()
        let_in(box.home / "run")
        os.chmod(box.home / "run" / "control.sock", 0o666)
        yield service


def greet(box: Box, uid: int) -> DaemonClient:
    """Connect to the service as a user."""
    with as_nobody(uid):
        connected = connect(bytes(box.home / "run" / "control.sock"))
    assert connected is not None
    return DaemonClient(connected)


def do(box: Box, act: Act, uid: int = PAGE) -> str:
    """Have something done as a user, and return what came of it."""
    with greet(box, uid) as client:
        done = client.act(act, _TIMEOUT_S)
    assert isinstance(done, ActDone)
    return done.message


def ask(box: Box, question: Question, uid: int) -> Answer:
    """Ask as a user, and return the first answer."""
    with greet(box, uid) as client:
        client.send(question)
        answer = client.receive(_TIMEOUT_S)
    assert answer is not None
    return answer


def list_actions(box: Box) -> list[Action]:
    """Return all actions, oldest first."""
    with Catalog.open(bytes(box.catalog), writes=False) as catalog, catalog.read() as c:
        return [one.action for one in reversed(find_actions(c))]


@pytest.fixture
def root(integrity: Box, tmp_path: Path) -> Path:
    """A recorded folder in which a scrub found one damaged file."""
    folder = plant(tmp_path / "root", 3)
    (folder / "bad").write_bytes(blocks(2))
    age(folder / "bad")
    integrity.configure(f'[[root]]\npath = "{folder}"\n{NEVER}')
    integrity.run("scan", expect=0)
    damage(folder / "bad", 5)
    integrity.run("scrub", expect=1)
    return folder


def test_page_repairs_a_flipped_bit(integrity: Box, ext4: LoopFS, tmp_path: Path) -> None:
    """It is told the plan first, then the file is as it was, its finding is resolved, and the history names alice."""
    data, root, copy = blocks(5), ext4.folder / "root", tmp_path / "copy"
    for folder in (root, copy):
        folder.mkdir()
        (folder / "a b").write_bytes(data)
    os.sync()
    age(root / "a b")
    config = f'{ON}[[copy]]\nname = "nightly"\nof = "{root}"\nurl = "{copy}"\n'
    integrity.configure(f'{config}[[root]]\npath = "{root}"\n{NEVER}')
    integrity.run("scan", expect=0)
    flip_bit(root / "a b", 2 * BLOCK + 9)
    integrity.run("scrub", expect=1)
    (finding,) = integrity.findings("findings", expect=1)
    path = bytes(root / "a b")
    with serving(integrity, root, tmp_path, config):
        with greet(integrity, PAGE) as client:
            planned = client.act(Act(ActVerb.PLAN_REPAIR, ALICE, path=path))
        assert isinstance(planned, RepairPlanned)
        shown = integrity.run("--json", "repair", root / "a b", expect=0).of_type("repair_plan")[0]
        before = read_direct(path, 2 * BLOCK)
        said = do(integrity, Act(ActVerb.REPAIR, ALICE, path=path))
        again = do(integrity, Act(ActVerb.REPAIR, ALICE, path=path))

    plan = json.loads(planned.plan)
    assert {name: shown[name] for name in plan} == plan
    assert [{"copy": "nightly", "blocks": [2]}] == plan["mends"]
    assert f"{root}/a b: can be repaired" == planned.title
    assert ("source", "block 2 of 6: intact in nightly") in planned.rows
    good = data[2 * BLOCK : 2 * BLOCK + 4096]
    assert before != good
    assert (good, data) == (read_direct(path, 2 * BLOCK), (root / "a b").read_bytes())
    (kept,) = leftovers(root)
    assert f"repaired, and verified by reading it from disk; the damaged file is kept as {kept}" in said
    assert "intact" in again
    integrity.run("findings", expect=0)
    (done,) = list_actions(integrity)
    assert (ActionVerb.REPAIR, ALICE, bytes(root), b"a b") == (done.verb, done.actor, done.root, done.path)
    assert ((finding["id"],), True) == (done.findings, "repaired from nightly (block 2)" in done.outcome)


def test_repair_where_the_service_may_not_write_names_the_command(integrity: Box, root: Path, tmp_path: Path) -> None:
    """The shipped unit lets the service only read: nothing is changed, the attempt is recorded, the answer says so."""
    copy, before = tmp_path / "copy", (root / "bad").read_bytes()
    copy.mkdir()
    (copy / "bad").write_bytes(blocks(2))
    config = f'{ON}[[copy]]\nname = "nightly"\nof = "{root}"\nurl = "{copy}"\n'
    with (
        serving(integrity, root, tmp_path, config, read_only=root),
        pytest.raises(AppError, match=r"not repaired: .*Read-only file system") as caught,
    ):
        do(integrity, Act(ActVerb.REPAIR, ALICE, path=bytes(root / "bad")))

    assert f"{integrity.program} repair {root}/bad --apply" in str(caught.value)
    assert before == (root / "bad").read_bytes()
    assert not leftovers(root)
    (done,) = list_actions(integrity)
    assert (ActionVerb.REPAIR, ALICE, b"bad") == (done.verb, done.actor, done.path)
    assert "not repaired: " in done.outcome
    integrity.run("findings", expect=1)


def test_page_decides_as_the_commands_do(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Findings, roots and files; each decision is in the history, and refusals are not."""
    (finding,) = integrity.findings("findings", expect=1)
    number, path = int(str(finding["id"])), bytes(root / "bad")
    until = int(time.time()) + 86_400
    with serving(integrity, root, tmp_path, ON) as service:
        do(integrity, Act(ActVerb.ACK, ALICE, (number,)))
        acked = integrity.findings("findings", expect=1)[0]["state"]
        do(integrity, Act(ActVerb.MUTE, ALICE, (number,), until=until))
        muted = integrity.findings("findings", expect=1)[0]["state"]
        with pytest.raises(ConfigError, match="finding 99: there is none"):
            do(integrity, Act(ActVerb.ACK, ALICE, (number, 99)))
        do(integrity, Act(ActVerb.PAUSE, ALICE, path=bytes(root)))
        service.wait_status("0 roots")
        with pytest.raises(ConfigError, match="is paused already"):
            do(integrity, Act(ActVerb.PAUSE, ALICE, path=bytes(root)))
        do(integrity, Act(ActVerb.RESUME, ALICE, path=bytes(root)))
        service.wait_status("1 roots")
        with pytest.raises(ConfigError, match="nothing waits for a decision"):
            do(integrity, Act(ActVerb.ACCEPT, ALICE, path=bytes(root), reason="meant", deletions=True))
        accepted = do(integrity, Act(ActVerb.ACCEPT, ALICE, path=path, reason="meant"))

    assert ("acknowledged", "muted") == (acked, muted)
    assert f"{root}/bad: accepted: its present content is the baseline; findings resolved: 1" == accepted
    integrity.run("findings", expect=0)
    assert ["ack", "mute", "pause", "resume", "accept"] == [one.verb.value for one in list_actions(integrity)]
    assert {ALICE} == {one.actor for one in list_actions(integrity)}


def test_test_alert_is_sent_and_recorded(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Through each channel; without a channel the answer says what to configure."""
    sent = tmp_path / "sent"
    config = f'{ON}[alerts]\ncommand = ["sh", "-c", "cat > {sent}"]\n'
    with serving(integrity, root, tmp_path, ON), pytest.raises(ConfigError, match="config sample"):
        do(integrity, Act(ActVerb.TEST_ALERT, ALICE))
    with serving(integrity, root, tmp_path, config):
        said = do(integrity, Act(ActVerb.TEST_ALERT, ALICE))

    assert sent.exists()
    assert said.startswith("test alert: ")
    assert said.endswith(": sent")
    assert [ActionVerb.TEST_ALERT] == [one.verb for one in list_actions(integrity)]


def test_each_user_may_ask_what_the_list_says(integrity: Box, root: Path, tmp_path: Path) -> None:
    """The page's user borrows no root and stops nothing; other users decide nothing; root may do all."""
    submit = Submit(JobRequest(Job.SCAN, (bytes(root),)), waits=False)
    pause, resume = (Act(verb, ALICE, path=bytes(root)) for verb in (ActVerb.PAUSE, ActVerb.RESUME))
    with serving(integrity, root, tmp_path, ON) as service:
        refused = [ask(integrity, question, PAGE) for question in (LendRoots((bytes(root),)), StopJob(), AskAhead())]
        refused.append(ask(integrity, pause, SOMEBODY))
        taken = [ask(integrity, submit, uid) for uid in (PAGE, SOMEBODY, 0)]
        with greet(integrity, PAGE) as client:
            covered = client.find_covered([bytes(root), b"/elsewhere"])
            client.ask_state(_TIMEOUT_S)
        with greet(integrity, SOMEBODY) as client:
            client.send(LendRoots((bytes(root),)))
            lent = client.receive(_TIMEOUT_S)
        done = ask(integrity, pause, 0), ask(integrity, resume, PAGE)
        log = service.log

    assert all(isinstance(one, Failure) and one.kind == "ConfigError" for one in refused), refused
    assert all(isinstance(one, JobAccepted) for one in (*taken, lent)), (taken, lent)
    assert {bytes(root)} == covered
    assert [True, True] == [isinstance(one, ActDone) for one in done], done
    assert ["pause", "resume"] == [one.verb.value for one in list_actions(integrity)]
    assert "a question: not allowed" in log


def test_sides_of_a_finding_are_shown_to_the_page_alone(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Also while its actions are off, as it only looks; users of the group see no data that they may not read."""
    picture = b"\x89PNG\r\n\x1a\n" + blocks(1)
    (root / "bad").unlink()
    (root / "photo").write_bytes(picture)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    config = f'[[copy]]\nname = "nightly"\nof = "{root}"\nurl = "{copy}"\n'
    integrity.configure(f'{config}[[root]]\npath = "{root}"\n{NEVER}')
    integrity.run("scan", expect=0)
    damage(root / "photo", 5000)
    integrity.run("scrub", expect=1)
    integrity.run("compare", "--with", "nightly", expect=1)
    number = next(int(one["id"]) for one in integrity.findings("findings") if one["path"].endswith("photo"))
    sides = [AskPicture(number, side, has_data=True) for side in (Side.FILE, Side.COPY)]
    with serving(integrity, root, tmp_path, config) as service:
        shown = [ask(integrity, one, PAGE) for one in sides]
        looked_at = ask(integrity, AskPicture(number, Side.FILE, has_data=False), 0)
        refused = ask(integrity, sides[0], SOMEBODY)
        unknown = ask(integrity, AskPicture(number + 100, Side.FILE, has_data=True), PAGE)
        log = service.log

    damaged = picture[:5000] + bytes([picture[5000] ^ 1]) + picture[5001:]
    assert [Picture("image/png", len(picture), data) for data in (damaged, picture)] == shown
    assert Picture("image/png", len(picture), b"") == looked_at
    assert isinstance(refused, Failure)
    assert "use sudo" in refused.message
    assert isinstance(unknown, Failure)
    assert "a question: not allowed" in log


def test_actions_of_the_page_are_off_unless_the_configuration_allows_them(
    integrity: Box, root: Path, tmp_path: Path
) -> None:
    """The refusal says what to set; a reload is enough; reading and root are not concerned."""
    pause = Act(ActVerb.PAUSE, ALICE, path=bytes(root))
    submit = Submit(JobRequest(Job.SCAN, (bytes(root),)), waits=False)
    with serving(integrity, root, tmp_path, "") as service:
        refused = [ask(integrity, question, PAGE) for question in (pause, submit)]
        with greet(integrity, PAGE) as client:
            client.ask_state(_TIMEOUT_S)
        as_root = do(integrity, pause, 0)
        integrity.configure(f'{ON}[[root]]\npath = "{root}"\n{NEVER}')
        service.reload()
        resumed = do(integrity, Act(ActVerb.RESUME, ALICE, path=bytes(root)))

    for one in refused:
        assert isinstance(one, Failure)
        assert "set `actions = true` in the section [web]" in one.message
    assert "paused" in as_root
    assert "resumed" in resumed


def test_hostile_arguments_change_nothing(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Paths outside of the roots, links out of them, folders, lines without end, and arguments of other verbs."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (root / "out").symlink_to(secret)
    (root / "folder").symlink_to(tmp_path)
    paths = (secret, root / "out", root / "folder/secret", Path("/"), root / "none\nexists")
    value = json.loads(encode(Act(ActVerb.ACK, ALICE, (1,))))
    lines = [
        json.dumps(value | change).encode() + b"\n"
        for change in ({"ids": []}, {"ids": [1 << 70]}, {"path": "Lw=="}, {"verb": "forget"}, {"actor": "root"})
    ]
    with serving(integrity, root, tmp_path, ON) as service:
        for path in paths:
            for verb in (ActVerb.PAUSE, ActVerb.PLAN_REPAIR, ActVerb.REPAIR, ActVerb.ACCEPT):
                reason = "meant" if verb is ActVerb.ACCEPT else ""
                with pytest.raises(AppError):
                    do(integrity, Act(verb, ALICE, path=bytes(path), reason=reason))
        with pytest.raises(ConfigError, match="name one file"):
            do(integrity, Act(ActVerb.REPAIR, ALICE, path=bytes(root)))
        answers = [send(integrity, line) for line in (*lines, b"x" * (REQUEST_LIMIT + 2))]
        with greet(integrity, PAGE) as client, pytest.raises(ConfigError, match="can't be asked for that"):
            client.act(Act(ActVerb.ACCEPT, ALICE, path=bytes(root), reason="x" * 5000))
        alive = do(integrity, Act(ActVerb.ACK, ALICE, (1,)))
        log = service.log

    assert all(b'"Failure"' in answer for answer in answers), answers
    assert "findings acknowledged: 1" in alive
    assert ["ack"] == [one.verb.value for one in list_actions(integrity)]
    assert "secret" == secret.read_text()
    assert "Traceback" not in log


def send(box: Box, line: bytes) -> bytes:
    """Send a line as the page's user, and return all that the service answers until it hangs up."""
    with as_nobody(PAGE):
        connected = connect(bytes(box.home / "run" / "control.sock"))
    assert connected is not None
    received = b""
    with connected:
        connected.settimeout(_TIMEOUT_S)
        try:
            connected.sendall(line)
            connected.shutdown(socket.SHUT_WR)
            while data := connected.recv(1 << 16):
                received += data
        except ConnectionError:
            pass  # it hangs up on an endless line before all of it was sent
    return received


def test_decision_outlives_its_client_and_waits_for_the_catalog(integrity: Box, root: Path, tmp_path: Path) -> None:
    """
    A page that is closed does not leave a file half accepted: the service ends what it began.

    While somebody else holds the write lock others are answered; the decision is carried out when it is free.
    """
    with serving(integrity, root, tmp_path, ON) as service:
        with greet(integrity, PAGE) as client:
            client.send(Act(ActVerb.ACCEPT, ALICE, path=bytes(root / "bad"), reason="meant"))
        wait_until(lambda: len(list_actions(integrity)) == 1, "the decision")
        log = service.log
        with closing(Connection(bytes(integrity.catalog))) as c:
            c.run("BEGIN IMMEDIATE")
            with greet(integrity, PAGE) as waiting:
                waiting.send(Act(ActVerb.PAUSE, ALICE, path=bytes(root)))
                with greet(integrity, SOMEBODY) as other:
                    other.ask_state(_TIMEOUT_S)
                early = waiting.receive(0.1)
                c.run("ROLLBACK")
                answer = waiting.receive(_TIMEOUT_S)

    assert early is None
    assert isinstance(answer, ActDone)
    assert [ActionVerb.ACCEPT, ActionVerb.PAUSE] == [one.verb for one in list_actions(integrity)]
    assert "control.act verb=accept who=alice" in log
    integrity.run("findings", expect=0)
