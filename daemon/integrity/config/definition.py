"""
Define every configuration key: its type, its default, and the comment that the sample prints.

The sample, ``config show`` and the checks are generated from these classes, so a default is written only here. A field
name carries the unit; ``key`` is its name in the file where that differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any, TypeVar, dataclass_transform

from integrity.config import parsers
from integrity.config.copy_urls import hide_secrets
from integrity.config.parsers import Parsed
from integrity.config.places import default_catalog_path
from integrity.model import Policy
from integrity.units import spell_duration, spell_share, spell_size

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def table(cls: type[T]) -> type[T]:
    """Let a subclass of ``SettingsTable`` have fields."""
    return dataclass(init=False, repr=False, eq=False, match_args=False)(cls)


class SettingsTable:
    """What all tables of the configuration share."""

    def __init__(self, **values: Any) -> None:
        for one in fields(self):  # type: ignore[arg-type] # its subclasses have fields
            if one.name in values:
                value = values.pop(one.name)
            elif one.default_factory is not MISSING:
                value = one.default_factory()
            elif one.default is not MISSING:
                value = one.default
            else:
                raise TypeError(f"{type(self).__name__}: {one.name} is missing")
            object.__setattr__(self, one.name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no {', '.join(values)}")

    def __setattr__(self, name: str, _: object) -> None:
        raise FrozenInstanceError(name)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class Presence(StrEnum):
    """Whether a root is expected to be present."""

    ALWAYS = "always"
    SOMETIMES = "sometimes"  # a removable disk; its absence raises no alarm


class MailTransport(StrEnum):
    """How mails are sent."""

    AUTO = "auto"  # sendmail if it is installed and usable, else smtp
    SENDMAIL = "sendmail"
    SMTP = "smtp"


class MailTls(StrEnum):
    """How the connection to a mail server is encrypted."""

    NONE = "none"
    STARTTLS = "starttls"
    TLS = "tls"


Flag = Annotated[bool, Parsed(parsers.parse_flag)]
Size = Annotated[int, Parsed(parsers.parse_bytes_count, spell_size)]
BlockSize = Annotated[int, Parsed(parsers.parse_block_size, spell_size)]
Duration = Annotated[int, Parsed(parsers.duration(1), spell_duration)]
Pause = Annotated[int, Parsed(parsers.duration(0), spell_duration)]
Percent = Annotated[int, Parsed(parsers.whole(0, 100))]
Count = Annotated[int, Parsed(parsers.whole(1, 1_000_000_000))]
CountOrNone = Annotated[int, Parsed(parsers.whole(0, 1_000_000_000))]
Text = Annotated[str, Parsed(parsers.parse_text)]
Texts = Annotated[tuple[str, ...], Parsed(parsers.parse_texts)]
Place = Annotated[bytes, Parsed(parsers.parse_place)]
Folder = Annotated[bytes, Parsed(parsers.parse_folder)]


def about(
    comment: str, *, key: str | None = None, is_secret: bool = False, hide: Callable[[str], str] | None = None
) -> dict[str, object]:
    """
    Return the metadata of a field, under the names that ``load`` and ``sample`` read.

    Args:
        comment: printed in the sample.
        key: name in the file, if it differs from the field's.
        is_secret: the value may hold a password or token, so only the scheme of a URL is ever shown.
        hide: removes secrets from a value before it is shown.
    """
    return {"description": comment, "is_secret": is_secret, "hide": hide} | ({"alias": key} if key else {})


@table
class MassChange(SettingsTable):
    """
    The limits beyond which changes and removals wait for confirmation (R5); both must be exceeded.

    500 files, because a deleted project has hundreds; 20 %, because a large root loses more than 500 in normal use. Two
    checks cover what these limits miss: groups (``jobs.gate.changes``), of which more than half must be hit, and the
    signs of ransomware (``jobs.gate.signs``), for which 20 files are enough.
    """

    files: CountOrNone = field(default=500, metadata=about("more than this many files"))
    percent: Percent = field(default=20, metadata=about("and more than this share of what was looked at"))


@table
class RootSettings(SettingsTable):
    """Settings of one root."""

    digests: Annotated[tuple[str, ...], Parsed(parsers.parse_digests)] = field(
        default=("md5", "xxh3_128"),
        metadata=about('checksums of each file; these two are always used; "blake3" may be added'),
    )
    block_size_bytes: BlockSize = field(
        default=1 << 20,
        metadata=about(
            "size of the parts that damage is located in; a power of two from 64KiB to 64MiB", key="block_size"
        ),
    )
    policy: Annotated[Policy, Parsed(parsers.one_of(Policy))] = field(
        default=Policy.MUTABLE,
        metadata=about("mutable: files may change | archive: they never change | growing: they are only appended to"),
    )
    exclude: Texts = field(
        default=(), metadata=about("files to leave out: gitignore patterns, in addition to the built-in list")
    )
    builtin_excludes: Flag = field(
        default=True, metadata=about("leave out @eaDir, .snapshots, and the like; `integrity status` lists them")
    )
    rewrites_in_place: Texts = field(
        default=(), metadata=about("patterns of files that programs rewrite without changing the modification time")
    )
    cross_mounts: Flag = field(
        default=False, metadata=about("include other file systems that are mounted inside the folder")
    )
    presence: Annotated[Presence, Parsed(parsers.one_of(Presence))] = field(
        default=Presence.ALWAYS, metadata=about("always | sometimes (a removable disk: its absence is no problem)")
    )
    verify_every_s: Duration = field(
        default=30 * 86400, metadata=about("re-read every file from the disk at least this often", key="verify_every")
    )
    settle_s: Pause = field(
        default=120,
        metadata=about("service only: wait this long after the last write before recording a file", key="settle"),
    )
    inspect: Flag = field(
        default=False,
        metadata=about(
            "test new and changed files by the checksums inside them (zip, PNG, FLAC, PDF, ...) after scrubs"
        ),
    )
    parity_percent: Annotated[float, Parsed(parsers.parse_percentage, spell_share)] = field(
        default=0.0,
        metadata=about(
            'service only: add this much parity, such as "5%", that heals files without a backup', key="parity"
        ),
    )
    parity_folder: Place = field(
        default=b"", metadata=about("folder for the parity, best on another disk; needs the extra [parity], or par2")
    )
    mass_change: MassChange = field(
        default=MassChange(),
        metadata=about("hold back changes if both limits are exceeded, in the root, a folder, or a file type"),
    )

    @property
    def mass_change_files(self) -> int:
        return self.mass_change.files

    @property
    def mass_change_percent(self) -> int:
        return self.mass_change.percent


@table
class ConfiguredRoot(RootSettings):
    """A ``[[root]]``: a folder and its overrides of ``[defaults]``."""

    path: Folder = field(metadata=about("the folder; symbolic links in it are resolved"))
    shared: Annotated[str, Parsed(parsers.parse_optional_name)] = field(
        default="",
        metadata=about("name of a tree that several boxes mount and read together, as the hub tells them; empty: none"),
    )
    replica_set: Annotated[str, Parsed(parsers.parse_optional_name)] = field(
        default="",
        metadata=about("name of the set of folders on several boxes that hold the same files; the hub compares them"),
    )
    replica_url: Annotated[str, Parsed(parsers.parse_optional_copy_url)] = field(
        default="",
        metadata=about("URL under which other boxes can read this folder, such as ssh://...", hide=hide_secrets),
    )


@table
class CatalogBackup(SettingsTable):
    """``[catalog_backup]``: backups of the catalog itself."""

    folder: Place = field(default=b"", metadata=about("where; empty: beside the catalog; another disk is better"))
    every_s: Duration = field(default=86400, metadata=about("how often, at the end of a run", key="every"))
    keep: Count = field(default=7, metadata=about("number of backups to keep"))


@table
class ConfiguredCopy(SettingsTable):
    """A ``[[copy]]``: a backup copy of a root."""

    name: Annotated[str, Parsed(parsers.parse_name)] = field(metadata=about("its name in commands and messages"))
    of: Folder = field(metadata=about("the [[root]], or a folder in it, that this is a copy of"))
    url: Annotated[str, Parsed(parsers.parse_copy_url)] = field(
        metadata=about(
            "path, checksum list, ssh://, s3://, rclone:, restic:REPOSITORY, borg:REPOSITORY, snapshots:/b/daily.*",
            hide=hide_secrets,
        )
    )
    verify_every_s: Duration = field(
        default=90 * 86400, metadata=about("compare all of it at least this often", key="verify_every")
    )
    behind_s: Pause = field(
        default=0,
        metadata=about(
            "how old the backup may be: what changed within this time may be missing, older or newer", key="behind"
        ),
    )
    exclude: Texts = field(
        default=(),
        metadata=about("files that this backup leaves out on purpose: gitignore patterns, relative to `of`"),
    )
    read_percent: Percent = field(
        default=0,
        metadata=about("share of the data that each comparison reads back; 0 = all of a folder, none of a remote copy"),
    )
    path: Place = field(
        default=b"", metadata=about("restic, borg: where the folder is in the backups; empty: its own path, or its end")
    )
    host: Text = field(
        default="", metadata=about("restic, borg: the machine that makes the backups; empty: this one, or the only one")
    )
    tags: Texts = field(default=(), metadata=about("restic: only backups that have all of these tags"))
    password_file: Place = field(default=b"", metadata=about("restic, borg: file with the repository's password"))
    password_command: Text = field(default="", metadata=about("restic, borg: command that prints the password"))


@table
class Schedule(SettingsTable):
    """``[schedule]``: when the daemon runs each job."""

    scan: Annotated[str, Parsed(parsers.parse_schedule)] = field(
        default="daily",
        metadata=about("cron expression with day names, or hourly | daily | weekly; changes are also noticed at once"),
    )
    scrub: Annotated[str, Parsed(parsers.parse_windows)] = field(
        default="01:00-06:00", metadata=about("windows: [days] HH:MM-HH:MM, comma-separated; or a cron expression")
    )
    compare: Annotated[str, Parsed(parsers.parse_schedule)] = field(default="sun 03:00", metadata=about("as for scan"))


@table
class PaceConfig(SettingsTable):
    """``[pace]``: how the daemon throttles its reads."""

    rate_bytes_per_s: Size = field(
        default=0, metadata=about("limit per disk, in bytes per second; 0 = none", key="rate")
    )
    floor_bytes_per_s: Size = field(
        default=4 << 20,
        metadata=about("never slower than this, in bytes per second, while a window is open", key="floor"),
    )
    pressure_percent: Percent = field(
        default=20,
        metadata=about(
            'slow down if others wait for the disk more than this percentage of time (io PSI "some avg10")',
            key="pressure",
        ),
    )
    wake: Flag = field(default=False, metadata=about("wake sleeping disks even before files become overdue"))
    max_temperature: Annotated[int, Parsed(parsers.whole(0, 120))] = field(
        default=0, metadata=about("pause if a disk is hotter than this, in degrees C; 0 = don't check")
    )


@table
class Disks(SettingsTable):
    """``[disks]``: what disks report of themselves."""

    smart: Flag = field(
        default=True,
        metadata=about("read each disk's SMART values once a day, by smartctl (package smartmontools); wakes none"),
    )


@table
class Mail(SettingsTable):
    """``[mail]``: sender, recipients, and the mail server."""

    to: Texts = field(default=(), metadata=about("recipients; no mail is sent while this is empty"))
    sender: Text = field(
        default="integrity@HOSTNAME",
        metadata=about("sender; HOSTNAME is replaced by the name of this machine", key="from"),
    )
    transport: Annotated[MailTransport, Parsed(parsers.one_of(MailTransport))] = field(
        default=MailTransport.AUTO, metadata=about("auto | sendmail | smtp; auto uses sendmail if it works, else smtp")
    )
    host: Text = field(default="localhost", metadata=about("name of the mail server"))
    port: Annotated[int, Parsed(parsers.whole(1, 65535))] = field(default=25, metadata=about("port of the mail server"))
    tls: Annotated[MailTls, Parsed(parsers.one_of(MailTls))] = field(
        default=MailTls.NONE, metadata=about("none | starttls | tls")
    )
    user: Text = field(default="", metadata=about("login name; empty: no login"))
    password_file: Place = field(default=b"", metadata=about("file with the password in its first line"))


MAILS_PER_HOUR = 5
"""Limit for mails about new findings, not configurable: a scrub of a dying disk finds damage for hours."""


@table
class Alerts(SettingsTable):
    """``[alerts]``: which alerts are sent, where, and how often."""

    group_s: Pause = field(
        default=120,
        metadata=about(
            f"findings within this time share a mail; at most {MAILS_PER_HOUR} such mails per hour, besides the first"
            " severe finding of its kind in a root",
            key="group",
        ),
    )
    digest_every_s: Duration = field(
        default=86400, metadata=about("how often to send a reminder of open findings", key="digest_every")
    )
    all_clear: Flag = field(default=True, metadata=about("send a mail when the last open finding is resolved"))
    alive_every_s: Duration = field(
        default=30 * 86400,
        metadata=about("how often to send a sign of life, even if nothing is wrong", key="alive_every"),
    )
    apprise: Texts = field(
        default=(),
        metadata=about("URLs of other services, in apprise's syntax; needs the extra [notify]", is_secret=True),
    )
    command: Texts = field(
        default=(), metadata=about("a program and its arguments; gets each alert as JSON on standard input")
    )
    heartbeat_url: Annotated[str, Parsed(parsers.parse_web_url)] = field(
        default="",
        metadata=about("URL to request after each good run, with /fail appended after a bad one", is_secret=True),
    )


@table
class Web(SettingsTable):
    """``[web]``: the page of `integrity web`."""

    listen: Annotated[str, Parsed(parsers.parse_listen)] = field(
        default="127.0.0.1:8431",
        metadata=about("address and port; another address than this machine's own needs TLS or a trusted proxy"),
    )
    hosts: Texts = field(default=(), metadata=about("further names that browsers may use for it, such as nas.local"))
    public_url: Annotated[str, Parsed(parsers.parse_web_url)] = field(
        default="", metadata=about("URL under which you reach it; mails then link to it")
    )
    tls_certificate: Place = field(default=b"", metadata=about("certificate chain as PEM; empty: no TLS"))
    tls_key: Place = field(default=b"", metadata=about("private key of the certificate"))
    self_signed: Flag = field(
        default=False,
        metadata=about("TLS with a certificate that the page makes and renews itself; browsers warn of it once"),
    )
    trusted_proxy: Annotated[str, Parsed(parsers.parse_address)] = field(
        default="", metadata=about("IP address of a reverse proxy whose X-Forwarded-* headers are believed")
    )
    token_file: Place = field(
        default=b"", metadata=about("file with a token that /metrics and /api take instead of a log-in; empty: none")
    )
    actions: Flag = field(
        default=False, metadata=about("allow acknowledging, muting, scrubbing, accepting and repairing in the page")
    )

    @property
    def has_tls(self) -> bool:
        return self.self_signed or bool(self.tls_certificate)

    @property
    def url(self) -> str:
        """Return the URL of the page, without a slash at its end."""
        return self.public_url.rstrip("/") or f"{'https' if self.has_tls else 'http'}://{self.listen}"


@table
class Hub(SettingsTable):
    """``[hub]``: the hub that this box reports to."""

    url: Annotated[str, Parsed(parsers.parse_hub_url)] = field(
        default="", metadata=about("URL of the hub; empty: none. `integrity hub join` sets it up")
    )
    token_file: Place = field(default=b"", metadata=about("file with the token of this box"))
    certificate: Place = field(
        default=b"", metadata=about("certificate, as PEM, that the hub's is signed with; empty: those of the system")
    )
    report_every_s: Duration = field(
        default=300, metadata=about("how often to report; findings are reported at once", key="report_every")
    )


@table
class HubServer(SettingsTable):
    """``[hub_server]``: the hub, `integrity hub run`."""

    listen: Annotated[str, Parsed(parsers.parse_listen)] = field(
        default="127.0.0.1:8433",
        metadata=about("address and port; another address than this machine's own needs TLS or a trusted proxy"),
    )
    database: Annotated[str, Parsed(parsers.parse_database)] = field(
        default="", metadata=about("postgresql://USER@HOST/NAME; empty: an SQLite file, for a handful of boxes")
    )
    store: Place = field(
        default=b"", metadata=about("folder for the catalogs of shared trees; empty: beside the SQLite file")
    )
    hosts: Texts = field(default=(), metadata=about("further names that browsers may use for it, such as nas.local"))
    public_url: Annotated[str, Parsed(parsers.parse_web_url)] = field(
        default="", metadata=about("URL under which boxes and browsers reach it")
    )
    silent_after_s: Duration = field(
        default=86400, metadata=about("a box that did not report for so long is a finding", key="silent_after")
    )
    box_limit_bytes: Size = field(
        default=16 << 30,
        metadata=about("what one box may store in the database; 10 million files take 3 GiB", key="box_limit"),
    )
    token_file: Place = field(
        default=b"", metadata=about("file with a token that /metrics and /api take instead of a log-in; empty: none")
    )
    certificate: Place = field(default=b"", metadata=about("certificate chain as PEM; empty: no TLS"))
    key: Place = field(default=b"", metadata=about("private key of the certificate"))
    trusted_proxy: Annotated[str, Parsed(parsers.parse_address)] = field(
        default="", metadata=about("IP address of a reverse proxy whose X-Forwarded-* headers are believed")
    )
    shard_files: Count = field(
        default=100_000, metadata=about("shared trees are cut into shards of at most so many files, ...")
    )
    shard_size_bytes: Size = field(default=500 << 30, metadata=about("... and of at most this size", key="shard_size"))
    shard_lease_s: Duration = field(
        default=120, metadata=about("a worker that is silent for longer loses its shard to another", key="shard_lease")
    )
    shard_visit_s: Duration = field(
        default=1800,
        metadata=about("a worker brings a shard back after this time at the latest", key="shard_visit"),
    )


@table
class Config(SettingsTable):
    """The whole configuration. Without a file, every key has the default defined here."""

    catalog: Annotated[bytes, Parsed(parsers.parse_file)] = field(
        default_factory=default_catalog_path, metadata=about("the database with all records")
    )
    catalog_backup: CatalogBackup = field(default=CatalogBackup(), metadata=about("backups of the catalog itself"))
    defaults: RootSettings = field(default=RootSettings(), metadata=about("every key may be repeated in a [[root]]"))
    roots: tuple[ConfiguredRoot, ...] = field(
        default=(), metadata=about("a folder to watch; none by default", key="root")
    )
    copies: tuple[ConfiguredCopy, ...] = field(default=(), metadata=about("a backup copy; none by default", key="copy"))
    schedule: Schedule = field(default=Schedule(), metadata=about("service only"))
    pace: PaceConfig = field(default=PaceConfig(), metadata=about("how fast the service reads; commands have --rate"))
    disks: Disks = field(default=Disks(), metadata=about("what the disks report of themselves"))
    mail: Mail = field(default=Mail(), metadata=about("off while `to` is empty"))
    alerts: Alerts = field(default=Alerts(), metadata=about("which alerts are sent, and how often"))
    web: Web = field(default=Web(), metadata=about("the page, `integrity web`; needs the extra [web]"))
    hub: Hub = field(default=Hub(), metadata=about("the hub that this box reports to, if there is one"))
    hub_server: HubServer = field(
        default=HubServer(), metadata=about("the hub for several boxes, `integrity hub run`; needs the extra [hub]")
    )

    @property
    def own_roots(self) -> tuple[ConfiguredRoot, ...]:
        """Return the roots that this machine reads by itself: all but the shared ones."""
        return tuple(root for root in self.roots if not root.shared)

    @property
    def shared_roots(self) -> tuple[ConfiguredRoot, ...]:
        """Return the roots that several machines read together: their records are at the hub."""
        return tuple(root for root in self.roots if root.shared)

    def settings_for(self, root_path: bytes) -> RootSettings:
        """Return the settings of the ``[[root]]`` with this real path, or the defaults if a command added the root."""
        for root in self.roots:
            if root.path == root_path:
                return root
        return self.defaults

    def replica_set_of(self, root_path: bytes) -> tuple[str, str]:
        """Return the ``replica_set`` and ``replica_url`` of the ``[[root]]`` with this real path; empty: none."""
        return next(((one.replica_set, one.replica_url) for one in self.roots if one.path == root_path), ("", ""))
