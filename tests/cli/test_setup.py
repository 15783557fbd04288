"""``integrity setup``: its questions on a real terminal, its options without one, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support import AnyPath
from support.archives import Restic
from support.dialog import CTRL_C, CTRL_D, Dialog
from support.loopfs import LoopFS
from support.servers import WebSink
from support.setupbox import PROMPT, SetupBox, answer, answer_secret, fill, fill_disks, press_enter
from support.smtpsink import Rules, SmtpSink

QUESTIONS = ["folders", "archives", "backups", "verified?", "Within", "server", "phone", "page", "Write it?"]
INTERRUPTED = 130

pytestmark = pytest.mark.root


@pytest.fixture
def machine(ext4: LoopFS, tmp_path: Path) -> SetupBox:
    """A machine with documents, photos, and an old copy of the documents, each on a disk."""
    folders = [ext4.folder / name for name in ("data", "photos", "old")]
    fill_disks(*folders)
    return SetupBox(tmp_path / "home", dict(zip(("/srv/data", "/srv/photos", "/mnt/old disk"), folders, strict=True)))


@pytest.fixture
def lone(ext4: LoopFS, tmp_path: Path) -> SetupBox:
    """A machine with one disk."""
    fill(ext4.folder / "data", 10, "odt", age_days=20)
    return SetupBox(tmp_path / "home", {"/srv/data": ext4.folder / "data"})


def test_without_a_terminal_it_asks_nothing(machine: SetupBox) -> None:
    """Nobody could answer: it says what to give, and does nothing."""
    before = machine.list_files()

    assert "there is none; to take the default answers, give --yes" in machine.run(expect=2).stderr
    assert "setup --json asks nothing: give --yes" in machine.run(expect=2, is_json=True).stderr
    assert before == machine.list_files()


def test_enter_all_the_way_gives_a_sensible_configuration(machine: SetupBox) -> None:
    """Data is watched, photos as an archive, the old copy is compared, and the file is one that can be checked."""
    with machine.talk("--no-test") as dialog:
        for question in QUESTIONS:
            answer(dialog, question)
        assert 0 == dialog.finish(), dialog.text

    config = tomllib.loads(machine.config.read_text(encoding="utf-8"))
    assert [("/srv/data", "mutable"), ("/srv/photos", "archive")] == [
        (root["path"], root["policy"]) for root in config["root"]
    ]
    assert [("old-disk", "/srv/data", "/mnt/old disk")] == [
        (copy["name"], copy["of"], copy["url"]) for copy in config["copy"]
    ]
    assert "looks like a backup of /srv/data: has 36 of 40 files (4 missing: older, or left out?)" in dialog.text
    assert (0o640, 0o750) == (
        machine.config.stat().st_mode & 0o777,
        machine.config.parent.stat().st_mode & 0o777,
    )
    machine.box.run("config", "check", env={"INTEGRITY_CONFIG": str(machine.config)}, expect=0)


def test_answers_other_than_the_defaults(machine: SetupBox) -> None:
    """Numbers, ranges, paths and words are understood; what is wrong is explained, and asked again."""
    with machine.talk("--no-test") as dialog:
        answer(dialog, "folders", "7")
        answer(dialog, "the numbers are 1 to 3", "photos")
        answer(dialog, "neither a number of the list nor a path", "/nonexistent")
        answer(dialog, "no such folder", "/")
        answer(dialog, "holds the system's own files", "1-2")
        answer(dialog, "archives", "none")
        answer(dialog, "backups", "ssh://nas/backup")
        answer(dialog, "Which folder is ssh://nas/backup a backup of?", "2")
        answer(dialog, "verified?", "at night")
        answer(dialog, "must be windows such as", "sat 22:00-06:00")
        answer(dialog, "Within", "soon")
        answer(dialog, "must be a duration", "0s")
        answer(dialog, "must be at least 1d long", "60d")
        answer(dialog, "server", "none")
        answer(dialog, "phone", "none")
        answer(dialog, "page", "everywhere")
        answer(dialog, "type none or local or lan", "none")
        answer(dialog, "Write it?", "show")
        answer(dialog, "Write it?", "y")
        assert 0 == dialog.finish(), dialog.text

    config = tomllib.loads(machine.config.read_text(encoding="utf-8"))
    assert ["mutable", "mutable"] == [root["policy"] for root in config["root"]]
    assert [("/srv/photos", "ssh://nas/backup")] == [(copy["of"], copy["url"]) for copy in config["copy"]]
    assert ("sat 22:00-06:00", "60d") == (config["schedule"]["scrub"], config["defaults"]["verify_every"])
    assert "# Configuration of integrity" in dialog.text


@pytest.mark.parametrize(
    ("end", "numbers"),
    [
        ("Ctrl-C", [0, 4, len(QUESTIONS) - 1]),
        *(pytest.param(end, range(len(QUESTIONS)), marks=pytest.mark.long) for end in ("Ctrl-D", "SIGTERM", "hang up")),
    ],
)
def test_end_at_any_question_changes_nothing(end: str, numbers: Sequence[int], machine: SetupBox) -> None:
    """However a person leaves, and whenever, or says no in the end: no file is there that was not there before."""
    before = machine.list_files()
    with machine.talk("--no-test") as dialog:
        press_enter(dialog, len(QUESTIONS) - 1)
        answer(dialog, "Write it?", "no")
        assert 0 == dialog.finish()
    assert dialog.text.endswith("Nothing was changed.\n")
    assert before == machine.list_files()
    for number in numbers:
        with machine.talk("--no-test") as dialog:
            press_enter(dialog, number)
            dialog.wait_for(PROMPT)
            leave(dialog, end)
            code = dialog.finish()

        assert before == machine.list_files()
        assert code == INTERRUPTED, dialog.text
        assert end == "hang up" or dialog.text.endswith("integrity: interrupted; nothing was changed\n")


def leave(dialog: Dialog, end: str) -> None:
    ways: dict[str, Callable[[], None]] = {
        "Ctrl-C": lambda: dialog.type(CTRL_C),
        "Ctrl-D": lambda: dialog.type(CTRL_D),
        "SIGTERM": lambda: os.kill(dialog.pid, signal.SIGTERM),
        "hang up": dialog.hang_up,
    }
    ways[end]()


@pytest.mark.parametrize("end", ["Ctrl-C", "SIGTERM", "hang up"])
def test_end_during_the_test_changes_nothing(end: str, machine: SetupBox) -> None:
    """The test file goes with the test."""
    before = machine.list_files()
    with machine.talk() as dialog:
        press_enter(dialog, 6)  # up to the server of mails
        dialog.wait_for("Testing")
        leave(dialog, end)
        code = dialog.finish()

    assert before == machine.list_files()
    assert code == INTERRUPTED, dialog.text


def test_mail_is_tested_and_asked_about(lone: SetupBox) -> None:
    """A wrong password, then a mail that did not arrive, then one that did: each time it is asked again."""
    with SmtpSink(auth=("me", "s3cret word")) as sink, lone.talk() as dialog:
        server = f"smtp://me@127.0.0.1:{sink.port}"
        press_enter(dialog, 4)  # folders, backups, windows, interval
        answer(dialog, "server", server)
        answer_secret(dialog, "wrong")
        answer(dialog, "Where should mails go?", "me@example.org, you@example.org")
        shown = answer(dialog, "Try another address")
        assert "FAILED  mail:me@example.org: 127.0.0.1" in shown
        assert "535" in shown
        answer(dialog, "server", server)
        answer_secret(dialog, "s3cret word")
        answer(dialog, "Where should mails go?", "me@example.org")
        answer(dialog, "Did the mail arrive?", "no")
        answer(dialog, "Try another address", "again")
        answer(dialog, "server", server)
        answer_secret(dialog, "s3cret word")
        answer(dialog, "Where should mails go?", "other@example.org")
        answer(dialog, "Did the mail arrive?", "yes")
        answer(dialog, "phone")
        answer(dialog, "page")
        answer(dialog, "Write it?")
        assert 0 == dialog.finish(), dialog.text
        lone.box.run("alert", "test", env={"INTEGRITY_CONFIG": str(lone.config)}, expect=0)
        received = sink.received

    recipients = [("me@example.org",), ("other@example.org",), ("other@example.org",)]
    assert recipients == [mail.recipients for mail in received]
    assert {"me"} == {mail.login for mail in received}
    password = lone.config.parent / "mail-password"
    assert ("s3cret word\n", 0o600) == (password.read_text(), password.stat().st_mode & 0o777)
    assert "s3cret" not in dialog.text + lone.config.read_text()


def test_push_is_tested_and_asked_about(lone: SetupBox) -> None:
    """What no service takes is asked again, as is what did not arrive; the token is shown nowhere."""
    with WebSink() as ntfy, lone.talk() as dialog:
        ntfy.status = 403
        press_enter(dialog, 5)
        answer(dialog, "Should your phone get alerts, too?", "my-phone")
        answer(dialog, "write ntfy://TOPIC, for example", f"ntfy://{ntfy.address}/t0pic")
        assert "FAILED  apprise:ntfy:" in answer(dialog, "Try another service")
        ntfy.status = 200
        answer(dialog, "Should your phone get alerts, too?", f"ntfy://{ntfy.address}/t0pic")
        answer(dialog, "Did the message arrive on your phone?", "no")
        answer(dialog, "Try another service", "again")
        answer(dialog, "Should your phone get alerts, too?", f"ntfy://{ntfy.address}/t0pic2")
        answer(dialog, "Did the message arrive on your phone?", "yes")
        answer(dialog, "page")
        shown = answer(dialog, "Write it?")
        assert 0 == dialog.finish(), dialog.text

    assert "push      ntfy://(hidden)" in shown
    assert "mail      none\n" in shown
    messages = [json.loads(body) for _, _, body in ntfy.asked]
    assert ["t0pic", "t0pic", "t0pic2"] == [message["topic"] for message in messages][-3:]
    assert "test: alerts arrive" in messages[-1]["title"]
    config = tomllib.loads(lone.config.read_text(encoding="utf-8"))
    assert [f"ntfy://{ntfy.address}/t0pic2"] == config["alerts"]["apprise"]


def test_present_services_are_kept(lone: SetupBox) -> None:
    """Enter keeps them, and shows no token."""
    lone.config.parent.mkdir()
    lone.config.write_text('[[root]]\npath = "/srv/data"\n[alerts]\napprise = ["ntfy://s3cret@example.org"]\n')
    with lone.talk("--no-test") as dialog:
        press_enter(dialog, 5)
        shown = answer(dialog, "Should your phone get alerts, too?")
        press_enter(dialog, 2)
        assert 0 == dialog.finish(), dialog.text

    assert "So far: ntfy://(hidden); keep leaves it so." in shown
    assert "[keep] >" in shown
    assert "s3cret" not in shown


def test_yes_takes_defaults_and_options(machine: SetupBox) -> None:
    """Without a terminal everything can be said by options; with --json it is told as objects."""
    with SmtpSink() as sink:
        done = machine.run(
            *("--yes", "--root", "/srv/data", "--archive", "/srv/data", "--copy", "/srv/data", "ssh://nas/b"),
            *("--window", "02:00-03:00", "--verify-every", "45d"),
            *("--mail-server", f"smtp://127.0.0.1:{sink.port}", "--mail-to", "me@example.org"),
            is_json=True,
        )
        (mail,) = sink.received

    assert "this is a drill" in mail.mail["Subject"]
    assert ["/mnt/old disk", "/srv/data", "/srv/photos"] == sorted(
        str(one["path"]) for one in done.of_type("setup_folder")
    )
    (config,) = done.of_type("config")
    assert (str(machine.config), True, machine.config.read_text()) == (
        config["path"],
        config["written"],
        config["toml"],
    )
    assert all(step["is_ok"] for step in done.of_type("self_test_step"))
    expected = {
        'path = "/srv/data"',
        'policy = "archive"',
        'url = "ssh://nas/b"',
        'scrub = "02:00-03:00"',
        'verify_every = "45d"',
        'to = ["me@example.org"]',
    }
    assert expected <= set(machine.read().splitlines())


def test_alert_that_can_not_be_sent_is_told(lone: SetupBox) -> None:
    """The folders are watched all the same; the exit code says that something is missing."""
    with SmtpSink() as sink, WebSink() as ntfy:
        sink.rules, ntfy.status = Rules(rcpt={"*": "550 nobody here"}), 500
        push = ("--push", f"ntfy://{ntfy.address}/topic")
        mail = ("--mail-server", f"smtp://127.0.0.1:{sink.port}", "--mail-to", "me@example.org")
        done = lone.run("--yes", *mail, *push, expect=3)
        told = lone.run("--yes", *mail, *push, "--root", "/srv/data", expect=3, is_json=True).of_type("self_test_step")

    assert ("alert", False) == (told[-1]["stage"], told[-1]["is_ok"])
    assert str(told[-1]["channel"]).startswith("apprise:ntfy:")
    assert "no mail could be sent: mail:me@example.org" in done.stderr
    assert "no message to a phone could be sent: apprise:ntfy:" in done.stderr
    assert "correct `apprise` in [alerts]" in done.stderr
    assert "apprise" in lone.read()
    assert 'to = ["me@example.org"]' in lone.read().splitlines()


def test_option_that_can_not_be_used(lone: SetupBox) -> None:
    """It is refused with the reason, and nothing was done."""
    before = lone.list_files()
    for options, complaint in (
        (["--root", "/nonexistent"], "there is no such folder"),
        (["--archive", "/srv"], "not one of the folders to watch"),
        (["--copy", "/nonexistent", "/mnt/x"], "lies in none of the folders"),
        (["--copy", "/srv/data", "ftp://x"], "the place of a backup must be"),
        (["--window", "never"], "--window: must be"),
        (["--mail-server", "mail.example.org"], "a mail server is written as"),
        (["--push", "phone"], "apprise knows no service with such a URL"),
        (["--page-actions", "decide"], "there is no page; add --page local, or --page lan"),
    ):
        assert complaint in lone.run("--yes", "--no-test", *options, expect=2).stderr
    assert before == lone.list_files()


def test_existing_configuration_is_shown_the_difference(machine: SetupBox) -> None:
    """Its settings are the defaults of the questions; it stays as it is, and the proposal is saved beside it."""
    text = '# mine\n[[root]]\npath = "/srv/photos"\n\n[alerts]\napprise = ["ntfy://token@example.org"]\n'
    machine.config.parent.mkdir()
    machine.config.write_text(text)
    with machine.talk("--no-test") as dialog:
        shown = answer(dialog, "folders", "1, 2")
        assert "exists and will not be replaced" in " ".join(shown.split())
        press_enter(dialog, 7)
        shown = answer(dialog, "Save it as")
        assert 0 == dialog.finish(), dialog.text

    proposed = Path(f"{machine.config}.proposed")
    assert text == machine.config.read_text()
    assert f"--- {machine.config}\n+++ {proposed}\n" in dialog.text
    assert '\n+path = "/srv/data"' in dialog.text
    assert "-# mine" in dialog.text
    assert 'apprise = ["ntfy://token@example.org"]' in proposed.read_text()
    machine.box.run("config", "check", env={"INTEGRITY_CONFIG": str(proposed)}, expect=0)
    assert "config check && mv" in dialog.text


def test_second_run_finds_nothing_to_change(machine: SetupBox) -> None:
    """The same answers give the same configuration, of which nothing is said if it is to be quiet."""
    machine.run("--yes", "--no-test")
    before = machine.config.read_text()
    done = machine.run("--yes", "--no-test")

    assert "says all of this already" in done.stdout
    assert before == machine.config.read_text()
    machine.config.unlink()
    machine.environment["INTEGRITY_QUIET"] = "1"
    assert "" == machine.run("--yes", "--no-test").stdout
    assert before == machine.config.read_text()


def test_other_configuration_without_questions(machine: SetupBox) -> None:
    """It exits 3, for it is not set up as asked: the difference is shown, nothing is written, two ways on are named."""
    machine.config.parent.mkdir()
    machine.config.write_text('[[root]]\npath = "/srv/photos"\n')
    before = machine.list_files()
    done = machine.run("--yes", "--no-test", "--root", "/srv/data", expect=3)

    assert '\n+path = "/srv/data"' in done.stdout
    assert "Nothing was changed." in done.stdout
    assert f"\n  mv {machine.config} {machine.config}.old\n" in done.stdout
    assert "config check\n" in done.stdout
    assert before == machine.list_files()
    machine.config.rename(f"{machine.config}.old")
    machine.run("--yes", "--no-test", "--root", "/srv/data")


def test_no_disk_is_found(ext4: LoopFS, tmp_path: Path) -> None:
    """A folder can be named; nothing but that is asked of it."""
    (ext4.folder / "mine").mkdir()
    machine = SetupBox(tmp_path / "home", {})
    folder = str(tmp_path / "mine")
    os.mkdir(folder)
    assert "at least one folder must be watched; name one: --root FOLDER" in machine.run("--yes", expect=2).stderr
    with machine.talk("--no-test") as dialog:
        answer(dialog, "No disks or folders with data were found.")
        answer(dialog, "at least one folder must be watched", folder)
        press_enter(dialog, 7)
        assert 0 == dialog.finish(), dialog.text

    assert f'path = "{folder}"' in machine.read().splitlines()


def test_odd_names(ext4: LoopFS, tmp_path: Path) -> None:
    """Blanks, quotes and line feeds can be configured; what is not UTF-8 can't, and that is said."""
    names = [b"two words", b'a "quote"', b"line\nfeed", b"caf\xe9"]
    disks: dict[AnyPath, AnyPath] = {}
    for number, name in enumerate(names):
        fill(ext4.folder / str(number), 5, "odt", age_days=number)
        disks[b"/srv/" + name] = ext4.folder / str(number)
    machine = SetupBox(tmp_path / "home", disks)
    done = machine.run("--yes", "--no-test")

    config = tomllib.loads(machine.config.read_text(encoding="utf-8"))
    assert sorted("/srv/" + name.decode() for name in names[:3]) == sorted(root["path"] for root in config["root"])
    assert "/srv/line\\nfeed" in done.stdout
    assert "can't be watched by the service: its name is not UTF-8" in done.stdout


def test_backup_disk_in_a_watched_folder(ext4: LoopFS, tmp_path: Path) -> None:
    """It is compared, and no part of what is watched, because folders don't cross mounts."""
    data, old = ext4.folder / "data", ext4.folder / "old"
    fill_disks(data, ext4.folder / "photos", old)
    (data / "backup").mkdir()
    machine = SetupBox(tmp_path / "home", {"/srv/data": data, "/srv/data/backup": old})
    machine.run("--yes", "--no-test")

    config = tomllib.loads(machine.config.read_text(encoding="utf-8"))
    assert [{"path": "/srv/data", "policy": "mutable"}] == config["root"]
    assert [("/srv/data", "/srv/data/backup")] == [(copy["of"], copy["url"]) for copy in config["copy"]]


def test_repository_of_backups_is_proposed(lone: SetupBox, tmp_path: Path) -> None:
    """It is asked where its password is; without anybody to ask it is only shown, and can be named."""
    archive = Restic(tmp_path)
    lone.disks["/mnt/usb"] = archive.place
    with lone.talk("--no-test") as dialog:
        press_enter(dialog, 1)
        shown = answer(dialog, "Which backups should be compared with your files?")
        assert "restic:/mnt/usb, a repository of backups" in shown
        assert "[2]" in shown + dialog.text
        answer(dialog, "Which file has the password of restic:/mnt/usb?", "/no/such/file")
        answer(dialog, "there is no such file", str(archive.password_file))
        press_enter(dialog, 5)
        answer(dialog, "Write it?", "y")
        assert 0 == dialog.finish(), dialog.text

    (copy,) = tomllib.loads(lone.config.read_text(encoding="utf-8"))["copy"]
    expected = {"of": "/srv/data", "url": "restic:/mnt/usb", "password_file": str(archive.password_file)}
    assert expected == {key: copy[key] for key in expected}

    lone.config.unlink()
    assert "a repository of restic" in lone.run("--yes", "--no-test").stdout
    assert "copy" not in tomllib.loads(lone.config.read_text(encoding="utf-8"))


def test_snapshots_are_proposed_and_looked_into(lone: SetupBox, ext4: LoopFS) -> None:
    """What rotted between two of them is told before anything is recorded; they are no part of what is watched."""
    data = ext4.folder / "data"
    for day, byte in (("2026-11-01", b"a"), ("2026-11-02", b"b")):
        (data / "part0/film.odt").write_bytes(byte * 5000)
        os.utime(data / "part0/film.odt", (1, 1))
        shutil.copytree(data, ext4.folder / "disk" / day)
    lone.disks["/mnt/disk"] = ext4.folder / "disk"
    pattern = "snapshots:/mnt/disk/*"
    with lone.talk("--no-test") as dialog:
        press_enter(dialog, 1)
        shown = answer(dialog, "Which backups should be compared with your files?")
        assert "2 versions of /srv/data: /mnt/disk/*" in shown
        press_enter(dialog, 5)
        answer(dialog, "Write it?", "y")
        assert 0 == dialog.finish(), dialog.text

    assert "Changed under the same time  /srv/data/part0/film.odt" in dialog.text
    assert "the file here has the newer content" in dialog.text
    config = tomllib.loads(lone.config.read_text(encoding="utf-8"))
    assert ["/srv/data"] == [root["path"] for root in config["root"]]
    assert [("/srv/data", pattern)] == [(copy["of"], copy["url"]) for copy in config["copy"]]

    lone.config.unlink()
    assert "To find what rotted before today" in lone.run("--yes", "--no-test").stdout


def test_hundred_mounts(ext4: LoopFS, tmp_path: Path) -> None:
    """A box full of containers: repeated mounts are listed once, and there is an end to the list."""
    fill(ext4.folder / "data", 10, "odt", age_days=20)
    disks: dict[AnyPath, AnyPath] = {"/srv/data": ext4.folder / "data"}
    for number in range(50):
        disks[f"/srv/again{number}"] = ext4.folder / "data/part0"
    for number in range(50):
        (ext4.folder / f"other{number}").mkdir()
        disks[f"/mnt/other{number}"] = ext4.folder / f"other{number}"
    machine = SetupBox(tmp_path / "home", disks)
    done = machine.run("--yes", "--no-test")

    assert "again" not in done.stdout
    assert "31 more with less data are not listed" in done.stdout
    assert 'path = "/srv/data"' in machine.read().splitlines()


def test_folder_where_nothing_can_be_written(lone: SetupBox, ext4: LoopFS) -> None:
    """A read-only /etc, say: it is told before the first question."""
    ext4.remount("ro")
    lone.environment["INTEGRITY_CONFIG"] = str(ext4.folder / "etc/integrity.toml")
    with lone.talk() as dialog:
        assert 2 == dialog.finish()

    assert "can't be written: the file system is mounted read-only; mend that, or name another file" in dialog.text
    assert PROMPT not in dialog.text


@pytest.fixture
def home(ext4: LoopFS) -> Path:
    """The home folder of a user who is not root."""
    home = ext4.folder / "home"
    fill(home / "letters", 10, "odt", age_days=20)
    (home / "run/systemd").mkdir(parents=True)
    subprocess.run(["chown", "-R", "nobody", home], check=True)
    return home


def talk_as_nobody(home: Path, tmp_path: Path, data: Path, path: str) -> Dialog:
    """Start setup as that user, on a machine with a disk of somebody else."""
    fill(data, 10, "odt", age_days=20)
    machine = SetupBox(tmp_path / "h", {"/srv/data": data, "/home/me": home})
    command = machine.command("setup", "--no-test")
    start = command.index("--") + 1
    as_nobody: list[AnyPath] = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    environment = {"HOME": "/home/me", "PATH": path, "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": "/home/me/run"}
    return Dialog([*command[:start], *as_nobody, *command[start:]], env=environment)


def test_user_without_root(home: Path, ext4: LoopFS, tmp_path: Path) -> None:
    """The home folder is watched, without its caches; disks of others are listed, but not proposed."""
    with talk_as_nobody(home, tmp_path, ext4.folder / "data", os.environ["PATH"]) as dialog:
        shown = answer(dialog, "folders")
        press_enter(dialog, 7)
        assert 0 == dialog.finish(), dialog.text

    assert "  2  /srv/data" in shown
    assert "[1] > " in shown
    assert "systemd does not run here" in dialog.text
    assert "scrub --due --time-limit 5h" in dialog.text
    written = home / ".config/integrity/integrity.toml"
    config = tomllib.loads(written.read_text(encoding="utf-8"))
    assert [("/home/me", ["/.cache/"])] == [(root["path"], root["exclude"]) for root in config["root"]]
    assert (0o600, 65534) == (written.stat().st_mode & 0o777, written.stat().st_uid)


def test_user_with_a_service_of_his_own(home: Path, ext4: LoopFS, tmp_path: Path) -> None:
    """Where the user's systemd runs, it gets the unit and is told to start it; this one only notes what it is told."""
    (home / "run/systemd/private").touch()
    program = home / "bin/systemctl"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" >> /home/me/run/told\n')
    program.chmod(0o755)
    path = f"/home/me/bin:{os.environ['PATH']}"
    with talk_as_nobody(home, tmp_path, ext4.folder / "data", path) as dialog:
        press_enter(dialog, 8)
        assert 0 == dialog.finish(), dialog.text

    told = [f"--user {words}" for words in ("daemon-reload", "enable integrity.service", "restart integrity.service")]
    assert told == (home / "run/told").read_text().splitlines()
    assert (home / ".config/systemd/user/integrity.service").exists()
    assert "To stop it:         systemctl --user disable --now integrity" in dialog.text
    assert "loginctl enable-linger" in dialog.text


def test_folders_recorded_before_are_the_default(lone: SetupBox) -> None:
    """A folder that was scanned by hand takes the place of the disk that contains it."""
    command = lone.command("scan", "/srv/data/part1")
    environment = lone.environment | {"INTEGRITY_CONFIG": str(lone.box.configure(""))}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    lone.run("--yes", "--no-test")

    config = tomllib.loads(lone.config.read_text(encoding="utf-8"))
    assert ["/srv/data/part1"] == [root["path"] for root in config["root"]]


def test_answers_that_can_not_work_are_refused(lone: SetupBox) -> None:
    """Before anything is tested or written."""
    for option, answer_given, reason in (
        ("--verify-every", "1s", "at least 1 day"),
        ("--mail-to", "no", "neither an address"),
    ):
        assert reason in lone.run("--yes", "--no-test", option, answer_given, expect=2).stderr
    assert not lone.config.exists()


def test_configured_disk_that_is_absent_stays(machine: SetupBox) -> None:
    """A removable disk is not forgotten; without a terminal, the exit code tells that there is a difference."""
    machine.config.parent.mkdir()
    machine.config.write_text('[[root]]\npath = "/mnt/usb"\npresence = "sometimes"\n[[root]]\npath = "/srv/data"\n')
    done = machine.run("--yes", "--no-test", "--verify-every", "40d", expect=3)
    (config,) = machine.run("--yes", "--no-test", "--verify-every", "40d", expect=3, is_json=True).of_type("config")

    proposed = tomllib.loads(str(config["toml"]))
    assert [("/srv/data", "always"), ("/mnt/usb", "sometimes")] == [
        (root["path"], root.get("presence", "always")) for root in proposed["root"]
    ]
    assert "/mnt/usb: not there now; stays in the configuration" in done.stdout


def test_folder_without_files_is_not_proposed(ext4: LoopFS, tmp_path: Path) -> None:
    """As one in which only other disks are mounted: these are proposed, each with what fits it."""
    pool, photos, docs = (ext4.folder / name for name in ("pool", "photos", "docs"))
    fill(photos, 40, "jpg", age_days=400)
    fill(docs, 40, "odt", age_days=20)
    for name in ("photos", "docs"):
        (pool / name).mkdir(parents=True)
    machine = SetupBox(tmp_path / "home", {"/srv/pool": pool, "/srv/pool/photos": photos, "/srv/pool/docs": docs})
    done = machine.run("--yes", "--no-test")

    config = tomllib.loads(machine.config.read_text(encoding="utf-8"))
    assert {("/srv/pool/photos", "archive"), ("/srv/pool/docs", "mutable")} == {
        (root["path"], root["policy"]) for root in config["root"]
    }
    assert "holds no files" in done.stdout
