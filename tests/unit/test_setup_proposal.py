"""The configuration that ``integrity setup`` makes of answers, the mounts that it offers, and the ways of mail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from integrity.config import Config, ConfiguredCopy, ConfiguredRoot, Mail, MailTls, MailTransport, Web
from integrity.config.load import parse_config
from integrity.config.sample import write_config
from integrity.errors import ConfigError
from integrity.files.mounts import Mount
from integrity.jobs.setup.folders import find_data_folders
from integrity.jobs.setup.mail_ways import MailWays, find_mail_ways, make_mail_settings, require_recipient
from integrity.jobs.setup.proposal import (
    Answers,
    BackupAnswer,
    drop_nested,
    find_copy_problem,
    find_name_problem,
    find_password_source,
    make_config,
    make_copy_name,
    require_usable_root,
)
from integrity.model import Policy
from support.servers import SilentServer, free_port
from support.smtpsink import SmtpSink

DAY_S = 86_400
NO_WAY = MailWays("", has_sendmail=False, has_server=False, local_name="root", forwarded_to="")


def answer(*roots: bytes, base: Config | None = None, **others: object) -> Config:
    """Make the configuration of some answers, and make sure that it can be written and read."""
    answers = Answers(roots, (), (), "01:00-06:00", 30 * DAY_S, Mail(), (), Web())
    config = make_config(base or Config(), replace(answers, **others))  # type: ignore[arg-type] # fields of any type
    assert config == parse_config(write_config(config).encode(), "proposal")
    return config


def test_disk_in_a_root_becomes_part_of_it() -> None:
    """Roots can't lie in each other: the outer one includes the inner disk, and leaves the backup in it out."""
    config = answer(
        b"/srv",
        b"/srv/data",
        copies=(BackupAnswer(b"/srv/data", "/srv/back[up]"),),
        mount_points=(b"/srv", b"/srv/data", b"/srv/back[up]"),
    )
    (root,) = config.roots

    assert (b"/srv", True, ("/back\\[up\\]/",)) == (root.path, root.cross_mounts, root.exclude)


def test_backup_on_the_same_disk_is_left_out() -> None:
    """A folder of the root that holds its backup is not watched as if it were data."""
    config = answer(b"/srv", copies=(BackupAnswer(b"/srv/data", "/srv/backup"),), mount_points=(b"/srv",))

    assert ("/backup/",) == config.roots[0].exclude


def test_caches_of_a_home_folder_are_left_out() -> None:
    """Programs rewrite them all the time."""
    assert ("/.cache/",) == answer(b"/home/me", home=b"/home/me").roots[0].exclude


def test_other_settings_stay() -> None:
    """What the configuration so far says of roots, copies and other things is kept."""
    root = ConfiguredRoot(path=b"/srv/a", exclude=("*.tmp",), policy=Policy.GROWING)
    copy = ConfiguredCopy(name="mine", of=b"/srv/a", url="/mnt/a")
    base = replace(Config(), roots=(root,), copies=(copy,), alerts=replace(Config().alerts, all_clear=False))
    copies = (BackupAnswer(b"/srv/a", "/mnt/a"), BackupAnswer(b"/srv/b", "/mnt/b"))
    config = answer(b"/srv/a", b"/srv/b", base=base, copies=copies)

    assert (("*.tmp",), Policy.GROWING) == (config.roots[0].exclude, config.roots[0].policy)
    assert [copy, ("b", "/mnt/b")] == [config.copies[0], (config.copies[1].name, config.copies[1].url)]
    assert not config.alerts.all_clear


@pytest.mark.parametrize(
    ("path", "taken", "expected"),
    [
        (b"/mnt/My Backup", (), "my-backup"),
        (b"/mnt/backup", ("backup",), "backup-2"),
        (b"/mnt/caf\xe9\n", (), "caf"),
        (b"/mnt/\n", (), "backup"),
        (b"/", (), "backup"),
    ],
)
def test_name_of_a_copy_can_be_typed(path: bytes, taken: tuple[str, ...], expected: str) -> None:
    """A word for commands, whatever the folder is called."""
    assert expected == make_copy_name(path, taken)


def test_nested_folders_are_dropped() -> None:
    """Only what lies in no other folder; a longer name is no folder in a shorter one."""
    assert [b"/srv/data", b"/srv/data2"] == drop_nested([b"/srv/data/a", b"/srv/data", b"/srv/data2", b"/srv/data"])


@pytest.mark.parametrize("path", [b"/", b"/proc", b"/nonexistent", b"/etc/passwd", b"/srv/caf\xe9"])
def test_unusable_root_is_refused(path: bytes) -> None:
    """The system itself, what is not there, a file, and a name that the configuration can't have."""
    with pytest.raises(ConfigError, match=r"holds the system|no such folder|is a file|not UTF-8"):
        require_usable_root(path)


def test_names_that_a_configuration_can_have() -> None:
    """A root may have a line feed in its name, the place of a backup may not."""
    assert (None, None) == (find_name_problem(b"/a\nb"), find_copy_problem(b"/a b"))
    assert None not in (find_name_problem(b"/caf\xe9"), find_copy_problem(b"/a\nb"))


def mount(point: Path | bytes, fs_type: str, *, root: bytes = b"/", device: int = 1, source: str = "x") -> Mount:
    return Mount(device, device, root, bytes(point), fs_type, source, frozenset())


def test_system_mounts_are_no_data() -> None:
    """Nothing of the kernel's, of the system's own folders, of memory or containers, is offered."""
    mounts = [
        mount(b"/", "ext4"),
        mount(b"/boot", "ext4"),
        mount(b"/sys/fs/cgroup", "cgroup2"),
        mount(b"/var/lib/docker/overlay2/x/merged", "overlay"),
        mount(b"/mnt/memory", "tmpfs"),
        mount(b"/run/user/1000/gvfs", "fuse.gvfsd-fuse"),
        mount(b"/snap/core/1", "squashfs"),
    ]

    assert () == find_data_folders(home=b"/nonexistent", mounts=mounts).folders


@pytest.fixture
def sendmail(tmp_path: Path) -> Path:
    """Give a sendmail of a program that talks to a server itself."""
    program = tmp_path / "msmtp"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def look(program: Path, port: int, *, gains_privileges: bool = False) -> MailWays:
    mail = Mail(host="127.0.0.1", port=port)
    return find_mail_ways(mail, gains_privileges=gains_privileges, program=str(program))


def test_sendmail_that_needs_privileges_is_not_for_the_service(sendmail: Path) -> None:
    """The service gains none, unless it is a user's own; a program with the set-uid bit needs some."""
    port = free_port()
    assert look(sendmail, port).has_sendmail
    sendmail.chmod(0o4755)

    assert not look(sendmail, port).has_sendmail
    assert look(sendmail, port, gains_privileges=True).has_sendmail
    assert "msmtp" == look(sendmail, port).program


def test_mail_server_is_one_that_greets(sendmail: Path) -> None:
    """Not whoever listens."""
    with SmtpSink() as sink, SilentServer() as silent:
        assert look(sendmail, sink.port).has_server
        assert not look(sendmail, silent.port).has_server
        assert not look(sendmail, free_port()).has_server


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("submission://me%40x.org@mail.x.org", ("mail.x.org", 587, MailTls.STARTTLS, "me@x.org")),
        ("smtps://me@mail.x.org:1465", ("mail.x.org", 1465, MailTls.TLS, "me")),
        ("smtp://relay", ("relay", 25, MailTls.NONE, "")),
    ],
)
def test_mail_server_is_named_by_a_url(url: str, expected: tuple[object, ...]) -> None:
    """Scheme, user, host and port say how to connect."""
    mail = make_mail_settings(Mail(), ("a@x.org",), url, NO_WAY)

    assert (MailTransport.SMTP, expected) == (mail.transport, (mail.host, mail.port, mail.tls, mail.user))


@pytest.mark.parametrize("url", ["mail.x.org", "http://x", "smtp://", "smtp://u:secret@x", "smtp://x:y", "smtp://x/y"])
def test_other_urls_are_refused(url: str) -> None:
    """Also one with a password, which would be written into the configuration."""
    with pytest.raises(ConfigError, match="a mail server is written as"):
        make_mail_settings(Mail(), (), url, NO_WAY)


def test_way_of_mail_is_written_down() -> None:
    """So that the service takes the way that was tested."""
    ways = replace(NO_WAY, has_sendmail=True), replace(NO_WAY, has_server=True)

    assert [MailTransport.SENDMAIL, MailTransport.SMTP] == [
        make_mail_settings(Mail(), ("a@x",), "", way).transport for way in ways
    ]
    assert Mail() == make_mail_settings(Mail(), (), "", NO_WAY)


def test_recipient_is_an_address_or_a_user() -> None:
    """A mail server takes what it can deliver to nobody, too."""
    for good in ("me@example.org", "root"):
        require_recipient(good)
    with pytest.raises(ConfigError, match="neither an address"):
        require_recipient("no")


def test_password_of_a_repository_is_named_in_the_configuration() -> None:
    """The service has none of the variables that the setup has; a password itself is never written."""
    assert (b"/root/pw", "") == find_password_source("restic:/mnt/r", {"RESTIC_PASSWORD_FILE": "/root/pw"})
    assert (b"", "pass r") == find_password_source("restic:/mnt/r", {"RESTIC_PASSWORD_COMMAND": "pass r"})
    assert (b"", "cat pw") == find_password_source("borg:/mnt/b", {"BORG_PASSCOMMAND": "cat pw"})
    assert (b"", "") == find_password_source("borg:/mnt/b", {"RESTIC_PASSWORD": "s3cret"})
    assert (b"", "") == find_password_source("/mnt/b", {"RESTIC_PASSWORD": "s3cret"})
    for url, name in (("restic:/r", "HOME"), ("restic:/r", "RESTIC_PASSWORD"), ("borg:b", "BORG_PASSPHRASE")):
        with pytest.raises(ConfigError, match="would not have its password"):
            find_password_source(url, {name: "s3cret"})
