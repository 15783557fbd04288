"""``scan`` and ``scrub`` while a daemon serves their catalog: all is as if the command had done it itself."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.cli.daemon_client import find_service
from integrity.cli.session import Session
from integrity.service.control.socket import SYSTEM_SOCKET, connect, listen
from integrity.words.text import local_time
from support import AnyPath
from support.cli import Box, Completed, JsonObject, complete, make_command, make_environment
from support.daemons import SmallDaemon
from support.namespaces import with_binds
from support.planted import age, plant, plant_path
from support.privileges import NOBODY, let_in, run_as_nobody
from support.running import Running
from support.shapes import damage
from support.waiting import wait_until

pytestmark = pytest.mark.files(10)

# What differs from run to run: when and how long.
_VARYING = ("started_at", "finished_at", "opened_at", "updated_at", "duration_s")


@pytest.fixture
def other(tmp_path: Path) -> Box:
    """Give a second box, where commands do the work themselves."""
    box = Box(tmp_path / "other-home")
    make_environment(box.home)
    Catalog.create(bytes(box.catalog)).close()
    return box


def constant(objects: tuple[JsonObject, ...]) -> list[JsonObject]:
    """Leave out what differs from run to run."""
    return [{name: value for name, value in one.items() if name not in _VARYING} for one in objects]


def words(done: Completed) -> tuple[int, str, str]:
    """Leave out how long it took, and how fast that was."""
    return done.code, re.sub(r"after [^\n]+|, [\d.]+ \w+ a second", "", done.stdout), done.stderr


@pytest.mark.parametrize(
    ("option", "command"), [("--json", "scan"), ("-v", "scan"), ("-q", "scan"), ("--json", "scrub"), ("--", "scrub")]
)
def test_output_is_that_of_a_run_of_its_own(integrity: Box, other: Box, root: Path, option: str, command: str) -> None:
    """Findings, notes, summary and exit code: nothing tells that the daemon did it."""
    os.mkfifo(root / "fifo")
    (root / "edited").write_bytes(b"before")
    arguments = [*([] if option == "--" else [option]), command, root]
    integrity.is_apart = True  # this process has the server, which logs as well
    with SmallDaemon(integrity) as daemon:
        first = [box.run(*arguments, expect=0) for box in (integrity, other)]
        damage(plant_path(root, 3))
        os.rename(plant_path(root, 4), os.fsencode(root) + b"/odd\xff\n")
        plant_path(root, 5).unlink()
        (root / "edited").write_bytes(b"since")
        age(root / "edited")
        second = [box.run(*arguments) for box in (integrity, other)]

    assert 2 == len(daemon.asked)
    assert (0 if command == "scan" else 1) == second[0].code
    for its, mine in (first, second):
        if option == "--json":
            assert (mine.code, mine.stderr) == (its.code, its.stderr)
            assert constant(mine.objects) == constant(its.objects)
        else:
            assert words(mine) == words(its)


def test_all_options_reach_the_daemon(integrity: Box, root: Path) -> None:
    """None is lost on the way; relative paths are what they are for who typed them."""
    with SmallDaemon(integrity) as daemon:
        integrity.run("scan", "--full", "--jobs", "3", ".", cwd=root, expect=0)
        integrity.run(
            *("scrub", "--older-than", "0s", "--percent", "50", "--time-limit", "1h", "--byte-limit", "1G"),
            *("--rate", "50M", "--deep", "--no-scan", "--jobs", "2"),
            expect=0,
        )
        integrity.run("scrub", "--due", expect=0)
        integrity.run("scrub", "--new", root / "d1", root / "d2", expect=0)
    scan, scrub, due, new = daemon.asked

    assert ((bytes(root),), True, 3) == (scan.paths, scan.scan.full, scan.jobs)
    options = scrub.scrub
    assert ((), 0, 50.0, 3600) == (scrub.paths, options.older_than_s, options.percent, options.time_limit_s)
    assert (1 << 30, 50 << 20, True, False) == (options.byte_limit, options.rate, options.deep, options.scan_first)
    assert 2 == scrub.jobs
    assert due.scrub.due
    assert (True, (bytes(root / "d1"), bytes(root / "d2"))) == (new.scrub.new, new.paths)


def test_error_of_the_job_is_the_commands_own(integrity: Box, other: Box, root: Path, tmp_path: Path) -> None:
    """Message and exit code of a job that can't be done are the same."""
    with SmallDaemon(integrity):
        for path in (tmp_path / "nowhere", root / "d1" / "1.txt"):
            assert words(other.run("scan", path, expect=2)) == words(integrity.run("scan", path, expect=2))


def test_more_threads_than_a_daemon_grants_is_2(integrity: Box, root: Path) -> None:
    """What is not handed over is said, and nothing is done."""
    with SmallDaemon(integrity) as daemon:
        done = integrity.run("scan", "--jobs", "1000", root, expect=2)
    assert "the service, which serves this catalog, can't be asked for that: jobs: not from 1 to 256" in done.stderr
    assert [] == daemon.asked


def test_two_commands_at_once(integrity: Box, root: Path) -> None:
    """Where a second command was refused because the first one worked on the root, it now waits for its turn."""
    with (
        SmallDaemon(integrity) as daemon,
        Running(integrity, "--json", "scan", root) as first,
    ):
        daemon.gate.clear()
        wait_until(lambda: len(daemon.asked) == 1, "the first")
        with Running(integrity, "--json", "scrub", root) as second:
            wait_until(lambda: len(daemon.asked) == 2, "the second")
            daemon.gate.set()
            assert [10, 0] == [first.finish().summary["files_new"], second.finish().summary["files_new"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_command_stops_its_job(integrity: Box, root: Path, number: signal.Signals) -> None:
    """Ctrl-C asks the daemon to stop the job; its summary is printed, exit 130, and the daemon goes on."""
    with SmallDaemon(integrity) as daemon:
        daemon.gate.clear()
        with Running(integrity, "--json", "scan", root) as running:
            wait_until(lambda: bool(daemon.state().busy), "the job to begin")
            running.signal(number)
            wait_until(lambda: daemon.is_stopped(0), "the daemon to be asked")
            daemon.gate.set()
            done = running.finish()
        assert (130, "interrupted") == (done.code, done.summary["outcome"])
        assert 10 == integrity.summary("scan", root, expect=0)["files_new"]


def test_second_signal_ends_a_command_whose_job_does_not_end(integrity: Box, root: Path) -> None:
    """A job that hangs on a dead disk does not keep the user waiting."""
    with SmallDaemon(integrity) as daemon:
        daemon.gate.clear()
        with Running(integrity, "scan", root) as running:
            wait_until(lambda: bool(daemon.state().busy), "the job to begin")
            running.signal(signal.SIGINT)
            wait_until(lambda: daemon.is_stopped(0), "the daemon to be asked")
            running.signal(signal.SIGINT)
            assert -signal.SIGINT == running.finish().code


def test_killed_command_ends_its_job(integrity: Box, root: Path) -> None:
    """Nobody waits for it any longer, and it would keep others waiting at the pace that the command asked for."""
    with SmallDaemon(integrity) as daemon:
        daemon.gate.clear()
        with Running(integrity, "scan", root) as running:
            wait_until(lambda: bool(daemon.state().busy), "the job to begin")
            running.signal(signal.SIGKILL)
            running.finish()
        wait_until(lambda: daemon.is_stopped(0), "the daemon to notice")
        daemon.gate.set()
        assert 10 == integrity.summary("scan", root, expect=0)["files_new"]


def test_command_says_what_it_waits_for(integrity: Box, root: Path, tmp_path: Path) -> None:
    """On stderr, or as an object, what goes before it: jobs under way with when they began, then those that wait."""
    other = plant(tmp_path / "other", 3)
    with SmallDaemon(integrity) as daemon:
        daemon.gate.clear()
        integrity.run("scrub", "--no-wait", root, expect=0)
        wait_until(lambda: bool(daemon.state().busy), "the job to begin")
        with Running(integrity, "scan", other) as second:
            said = second.read_error()
            with Running(integrity, "--json", "scan", root) as third:
                waiting = json.loads(third.read_output())
                queued = integrity.run("scan", "--no-wait", root, expect=0).stdout
                silent = Running(integrity, "-q", "scan", root)
                with silent:
                    wait_until(lambda: len(daemon.asked) == 5, "the last")
                    daemon.gate.set()
                    assert "" == silent.finish().stderr
                assert 0 == third.finish().code
            assert 0 == second.finish().code
    began = local_time(1_763_700_000)
    now = f"the service is scrubbing {root} (since {began})"
    assert f"integrity: waiting: {now}\n" == said
    scrub = {"root": str(root), "job": "scrub", "copy": None, "started_at": "2025-11-21T04:40:00Z"}
    scan = {"root": str(other), "job": "scan", "copy": None, "started_at": None}
    assert {"type": "waiting", "schema": 1, "job": "scan", "ahead": [scrub, scan]} == waiting
    before = f"before this job comes a scan of {other}, a scan of {root}"
    assert f"queued: scan of {root}; {now}; {before}; see how it goes with: integrity status\n" == queued


def test_no_wait_only_queues(integrity: Box, root: Path) -> None:
    """The command is back before the job has begun, says what it did, and the job is done."""
    with SmallDaemon(integrity) as daemon:
        daemon.gate.clear()
        said = integrity.run("scan", "--no-wait", root, expect=0).stdout
        (queued,) = integrity.json("scrub", "--no-wait", root, expect=0)
        silent = integrity.run("-q", "scan", "--no-wait", expect=0)
        daemon.gate.set()
        assert 10 == integrity.summary("scan", root, expect=0)["files_not_due"]
    assert f"queued: scan of {root}; see how it goes with: integrity status\n" == said
    assert ("queued", "scrub", [{"path": str(root)}]) == (queued["type"], queued["job"], queued["paths"])
    assert "" == silent.stdout + silent.stderr
    assert 4 == len(daemon.asked)


def test_no_wait_needs_a_daemon(integrity: Box, root: Path) -> None:
    """Without one nothing is done, and no catalog is made."""
    done = integrity.run("scan", "--no-wait", root, expect=2)

    assert "no service runs for this catalog" in done.stderr
    assert not integrity.catalog.exists()


def test_other_catalog_is_not_the_daemons(integrity: Box, other: Box, root: Path) -> None:
    """A daemon is handed nothing that is for a catalog which it does not serve, though it has this user's socket."""
    with SmallDaemon(integrity, folder=other.home / "run") as daemon:
        assert 10 == other.summary("scan", root, expect=0)["files_new"]
        integrity.run("--catalog", other.catalog, "scan", root, expect=0)
    assert [] == daemon.asked


def test_daemon_is_found_by_any_name_of_its_catalog(integrity: Box, root: Path, tmp_path: Path) -> None:
    """A link to the catalog is the catalog."""
    (tmp_path / "link.db").symlink_to(integrity.catalog)
    with SmallDaemon(integrity, folder=tmp_path / "elsewhere") as daemon:
        integrity.run("--catalog", tmp_path / "link.db", "scan", root, expect=0)
    assert 1 == len(daemon.asked)


def test_socket_of_a_killed_daemon_is_no_daemon(integrity: Box, root: Path) -> None:
    """What a daemon left behind keeps no command from doing the work itself."""
    listen(SmallDaemon(integrity).path, bytes(integrity.catalog)).close()

    assert 10 == integrity.summary("scan", root, expect=0)["files_new"]


@contextmanager
def daemon_process(box: Box, *, descriptors: int = 1024) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon whose jobs never begin in a process of its own, which may open so many descriptors."""
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from support.cli import Box; from support.daemons import SmallDaemon; from support.waiting import wait_until\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]),) * 2)\n"
        "with SmallDaemon(Box(Path(sys.argv[1]))) as daemon:\n"
        "    daemon.gate.clear(); print('ready', flush=True)\n"
        "    wait_until(lambda: len(daemon.asked) == 1, 'a request')\n"
        "    print('asked', flush=True); sys.stdin.read()"
    )
    path = os.pathsep.join([tests, *(folder for folder in sys.path if folder)])
    process = subprocess.Popen(
        [sys.executable, "-c", program, box.home, str(descriptors)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout is not None
            assert b"ready\n" == process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_daemon_that_dies_is_4(integrity: Box, root: Path) -> None:
    """A command that waits for a daemon which is killed says so, and does not wait for ever."""
    with daemon_process(integrity) as process, Running(integrity, "--json", "scan", root) as running:
        assert process.stdout is not None
        assert b"asked\n" == process.stdout.readline()
        process.kill()
        done = running.finish()
    (error,) = done.objects

    assert (4, "error", 4) == (done.code, error["type"], error["exit_code"])
    assert f"the service (process {process.pid}) ended the connection before the job had ended" in done.stderr
    assert 10 == integrity.summary("scan", root, expect=0)["files_new"]


def test_daemon_that_has_no_descriptor_left_hears_who_asks(integrity: Box, root: Path) -> None:
    """More silent clients than the daemon can have open are given up for those that come."""
    with daemon_process(integrity, descriptors=40) as process, ExitStack() as stack:
        for _ in range(100):
            connected = connect(bytes(integrity.home / "run" / "control.sock"))
            assert connected is not None
            stack.enter_context(connected)
        with Running(integrity, "scan", root):
            assert process.stdout is not None
            assert b"asked\n" == process.stdout.readline()


def test_progress_is_shown(integrity: Box, root: Path) -> None:
    """On a terminal the user sees that the job is queued, and then how far it is."""
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 200))
    with SmallDaemon(integrity) as daemon:
        daemon.gate.clear()
        process = subprocess.Popen(
            make_command("scan", root),
            env=integrity.environment | {"TERM": "xterm"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=terminal,
        )
        os.close(terminal)
        with process:
            shown = b""
            while b"queued" not in shown:
                shown += os.read(controller, 4096)
            daemon.gate.set()
            with suppress(OSError):  # EIO: the other end is closed
                while data := os.read(controller, 4096):
                    shown += data
    os.close(controller)

    assert 0 == process.returncode
    assert f"scan {root}: queued".encode() in shown


def test_state_can_be_asked_for(integrity: Box, root: Path) -> None:
    """What the daemon is doing is known to other commands, and nothing is known where there is none."""
    session = Session(config_path=bytes(integrity.home / "integrity.toml"), catalog_option=bytes(integrity.catalog))
    assert find_service(session).state is None
    with SmallDaemon(integrity) as daemon:
        daemon.gate.clear()
        integrity.run("scan", "--no-wait", root, expect=0)
        wait_until(lambda: bool(daemon.state().busy), "the job to begin")
        assert daemon.state() == find_service(session).state
        daemon.gate.set()
    assert find_service(session).state is None


@pytest.mark.root
def test_user_who_may_not_ask_is_told(integrity: Box, root: Path) -> None:
    """Exit 4 names the socket, the group to join, and sudo; no job is begun beside the daemon's."""
    with SmallDaemon(integrity) as daemon:
        let_in(integrity.home / "run")
        (integrity.home / "integrity.toml").chmod(0o644)
        integrity.catalog.chmod(0o644)
        done = run_as_nobody(integrity, "scan", root)
    assert 4 == done.code
    assert f"{integrity.home}/run/control.sock: a service watches here" in done.stderr
    assert "sudo usermod -aG root $USER" in done.stderr
    assert [] == daemon.asked


def as_user_of(service: Path, box: Box, *args: AnyPath) -> Completed:
    """Run a command as a user who has neither config nor catalog, where ``service`` is shown as /run/integrity."""
    environment = box.environment
    del environment["INTEGRITY_CATALOG"]
    os.chown(box.home, NOBODY, NOBODY)
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *make_command(*args)]
    show = 'mount -t tmpfs none /run && mkdir /run/integrity && mount --bind "$0" /run/integrity && exec "$@"'
    done = subprocess.run(
        with_binds({}, "sh", "-c", show, service, *command),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    return complete(done.returncode, done.stdout, done.stderr, is_json="--json" in args)


@pytest.mark.root
def test_user_without_a_catalog_is_served_by_the_system(integrity: Box, root: Path, tmp_path: Path) -> None:
    """In the service's roots no second, empty catalog is made; elsewhere the user gets one; who may not ask is told."""
    assert SYSTEM_SOCKET == b"/run/integrity/control.sock"
    mine, service, user = plant(tmp_path / "mine", 2), tmp_path / "service", Box(tmp_path / "user")
    catalog = user.home / ".local/state/integrity/catalog.db"
    user.environment  # noqa: B018 - makes the folder
    with SmallDaemon(integrity, folder=service) as daemon:
        integrity.run("scan", root, expect=0)
        let_in(service)
        let_in(root)
        let_in(mine)
        denied = as_user_of(service, user, "scan", root)
        assert not catalog.exists()
        os.chown(daemon.path, -1, NOBODY)
        served = as_user_of(service, user, "--json", "scan", root)
        assert not catalog.exists()
        own = as_user_of(service, user, "--json", "scan", mine)
        assert catalog.exists()
        assert 2 == len(daemon.asked)
    assert 4 == denied.code
    assert "/run/integrity/control.sock: a service watches here, and this user may not ask it" in denied.stderr
    assert (0, 10) == (served.code, served.summary["files_not_due"])
    assert (0, 2) == (own.code, own.summary["files_new"])


@pytest.mark.long
@pytest.mark.root
def test_catalog_of_ones_own_needs_no_service(integrity: Box, root: Path, tmp_path: Path) -> None:
    """Named or made before, it is used without the service, which may be asked or not; what that watches is said."""
    mine, service, user = plant(tmp_path / "mine", 2), tmp_path / "service", Box(tmp_path / "user")
    default = user.home / ".local/state/integrity/catalog.db"
    user.environment  # noqa: B018 - makes the folder
    with SmallDaemon(integrity, folder=service) as daemon:
        integrity.run("scan", root, expect=0)
        for folder in (service, root, mine):
            let_in(folder)
        named = as_user_of(service, user, "--catalog", user.home / "own.db", "scan", mine)
        denied = as_user_of(service, user, "scan", mine)
        at_default = as_user_of(service, user, "--catalog", default, "scan", mine)
        plain = as_user_of(service, user, "--json", "scan", mine)
        os.chown(daemon.path, -1, NOBODY)
        both = as_user_of(service, user, "scan", root, mine)
        quiet = as_user_of(service, user, "-q", "scan", root)
        handed = as_user_of(service, user, "--catalog", integrity.catalog, "scan", root)
        closed = as_user_of(service, user, "--catalog", integrity.catalog, "findings")
    assert [0, 0, 0, 0, 0, 0] == [one.code for one in (named, at_default, plain, both, quiet, handed)], handed
    assert (0, 2) == (plain.summary["files_new"], plain.summary["files_known"])
    words = (
        f"{root}: the system's service watches this folder, too. This command uses the catalog {default} and not the"
    )
    assert words in both.stderr
    assert f"put this before the command: --catalog {integrity.catalog}" in both.stderr
    assert f"{mine}: the system" not in both.stderr
    assert ["", "", ""] == [one.stderr for one in (named, at_default, quiet)]
    assert 2 == len(daemon.asked)
    assert (4, 4) == (denied.code, closed.code)
    assert f"for folders that the service does not watch: integrity --catalog {default} scan FOLDER" in denied.stderr
    assert f"{integrity.catalog}: " in closed.stderr


@pytest.mark.root
def test_folders_of_the_service_and_others_are_named_in_two_commands(
    integrity: Box, root: Path, tmp_path: Path
) -> None:
    """For a user without a catalog the service can do one part only: neither is done, and no catalog is made."""
    mine, service, user = plant(tmp_path / "mine", 2), tmp_path / "service", Box(tmp_path / "user")
    user.environment  # noqa: B018 - makes the folder
    with SmallDaemon(integrity, folder=service) as daemon:
        integrity.run("scan", root, expect=0)
        for folder in (service, root, mine):
            let_in(folder)
        os.chown(daemon.path, -1, NOBODY)
        done = as_user_of(service, user, "scan", root, mine)
    assert 2 == done.code
    assert f"the system's service watches {root}, but not {mine}" in done.stderr
    assert "name them in two commands" in done.stderr
    assert not (user.home / ".local").exists()
    assert 1 == len(daemon.asked)
