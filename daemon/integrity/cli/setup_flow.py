"""
Ask the questions of ``integrity setup``: which folders, which backups, when.

The proposals come from ``jobs.setup``; alerts and the page have modules of their own; ``setup_finish`` does what was
answered.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from integrity.cli.setup_alerts import AlertQuestions, GivenAlerts, TestedMail, TestedPush
from integrity.cli.setup_page import GivenPage, PageAnswer, PageQuestions
from integrity.cli.setup_questions import NONE, Asker, parse_names, parse_paths, spell_paths, wrap
from integrity.config import Config, spell_duration
from integrity.config.parsers import duration, parse_copy_url
from integrity.config.times import read_windows
from integrity.errors import CatalogError, ConfigError, printable, show_path
from integrity.jobs.setup.look import MachineView, look_around
from integrity.jobs.setup.passwords import PasswordSource, find_password_source, has_password
from integrity.jobs.setup.proposal import (
    Answers,
    BackupAnswer,
    drop_nested,
    find_copy_problem,
    find_name_problem,
    make_config,
    require_usable_root,
)
from integrity.jobs.setup.workload import Workload, propose_days
from integrity.jobs.targets import is_inside
from integrity.views import setup as views

if TYPE_CHECKING:
    from integrity.cli.session import Session

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class GivenAnswers:
    """Answers that were given as options; None or empty: to be asked."""

    roots: tuple[bytes, ...]
    archives: tuple[bytes, ...]
    copies: tuple[tuple[bytes, bytes], ...]
    has_no_copies: bool
    windows: str | None
    verify_every_s: int | None
    alerts: GivenAlerts
    page: GivenPage


@dataclass(frozen=True, slots=True)
class SetupResult:
    """The configuration that was agreed on, and how the tests of alerts went."""

    config: Config
    mail: TestedMail
    push: TestedPush
    page: PageAnswer
    size_bytes: int
    record_s: float


class SetupQuestions:
    """
    The questions, in their order.

    Args:
        base: the configuration so far; the defaults if there is none.
        alerts: the questions about alerts.
        page: those about the page.
    """

    def __init__(
        self,
        session: Session,
        asker: Asker,
        given: GivenAnswers,
        base: Config,
        alerts: AlertQuestions,
        page: PageQuestions,
    ) -> None:
        self._session, self._output = session, session.output
        self._asker, self._given, self._base = asker, given, base
        self._alerts, self._page = alerts, page
        self._home = b"" if os.geteuid() == 0 else os.path.realpath(os.path.expanduser(b"~"))

    def run(self) -> SetupResult:
        """
        Ask everything.

        Raises:
            ConfigError: an answer that was given as an option can't be used.
            AppError: the test failed: damage is not found here.
        """
        self._output.say("Looking at disks and folders ...")
        recorded = self._find_recorded()
        view = look_around(self._home, list(dict.fromkeys([*self._find_configured(), *recorded])))
        self._show(view)
        roots = self._ask_roots(view, recorded)
        for path in roots:
            view = view.with_folder(path)
        outer = drop_nested(roots)
        archives = self._ask_archives(view, outer)
        copies = self._ask_copies(view, outer)
        windows = self._ask_windows()
        loads = view.measure(roots)
        verify_every_s = self._ask_interval(loads, windows)
        mail, push, page = self._alerts.ask_mail(), self._alerts.ask_push(), self._page.ask()
        points, home = view.mount_points, self._home
        answers = Answers(
            tuple(roots),
            tuple(archives),
            tuple(copies),
            windows,
            verify_every_s,
            mail.mail,
            push.urls,
            page.web,
            home,
            points,
        )
        config = replace(make_config(self._base, answers), catalog=self._session.catalog_path)
        total = sum(load.size_bytes for load, _ in loads)
        record_s = max((load.duration_s for load, _ in loads), default=0.0)
        return SetupResult(config, mail, push, page, total, record_s)

    def _find_configured(self) -> list[bytes]:
        """Return the folders of the configuration so far that are there now."""
        return [root.path for root in self._base.roots if os.path.isdir(root.path)]

    def _find_recorded(self) -> list[bytes]:
        """Return the folders that were recorded by a command, and are there now."""
        if not os.path.exists(self._session.catalog_path):
            return []
        from integrity.catalog.roots import find_roots

        with (
            suppress(CatalogError),  # the service reports it
            self._session.open_catalog(writes=False) as catalog,
            catalog.read() as connection,
        ):
            return [root.path for root in find_roots(connection) if os.path.isdir(root.path)]
        return []

    def _show(self, view: MachineView) -> None:
        """Print the list of folders."""
        rows = [
            views.FolderRow(
                number,
                folder,
                view.find_size(folder),
                tuple(view.list_remarks(folder, views.describe_copy, views.describe_series)),
            )
            for number, folder in enumerate(view.folders, 1)
        ]
        for row in rows:
            self._output.give("setup_folder", views.describe_folder_object(row, [*view.copies, *view.series]))
        say = self._output.say
        say()
        say("Folders with data:" if rows else "No disks or folders with data were found.")
        for line in views.list_folders(rows):
            say(wrap(line))
        if view.left_out:
            say(f"  {view.left_out:,} more with less data are not listed; name them by path if they matter.")
        for path, reason in view.refused:
            self._output.warn(f"{show_path(path)}: left out: {reason}")

    def _ask_roots(self, view: MachineView, recorded: Sequence[bytes]) -> list[bytes]:
        """Ask for the folders to watch; a configured one whose disk is absent stays."""
        absent = [root.path for root in self._base.roots if not os.path.isdir(root.path)]
        for path in absent:
            self._output.say(wrap(f"{show_path(path)}: not there now; stays in the configuration"))
        listed = [folder.path for folder in view.folders]

        def parse(text: str) -> list[bytes]:
            paths = parse_paths(text, listed)
            if not paths:
                raise ConfigError("at least one folder must be watched; name one: --root FOLDER, or its path here")
            for path in paths:
                require_usable_root(path)
            return paths

        if self._given.roots:
            for path in self._given.roots:
                require_usable_root(os.path.realpath(path))
            return [*map(os.path.realpath, self._given.roots), *absent]
        proposed = self._find_configured() or [*recorded, *view.propose_roots()]
        usable = [path for path in listed if path in proposed and find_name_problem(path) is None]
        default = spell_paths(usable, listed)
        explanation = ["Numbers or paths, with commas. Their files are read, never changed."]
        default = "" if default == NONE else default
        return self._asker.ask("Which folders should be watched?", default, parse, explanation) + absent

    def _ask_archives(self, view: MachineView, roots: Sequence[bytes]) -> list[bytes]:
        listed = [folder.path for folder in view.folders]

        def check(paths: list[bytes]) -> list[bytes]:
            for path in paths:
                if path not in roots:
                    raise ConfigError(f"{show_path(path)}: not one of the folders to watch")
            return paths

        if self._given.archives:
            paths = (
                [] if self._given.archives == (NONE.encode(),) else list(map(os.path.realpath, self._given.archives))
            )
            return check(paths)
        archives = [root.path for root in self._base.roots if root.policy == "archive" and root.path in roots]
        archives = list(dict.fromkeys([*archives, *view.propose_archives(roots)]))
        if not archives:
            return []
        explanation = ["If a file in an archive changes or disappears, you are told."]
        question = "Which of these are archives?"
        return self._asker.ask(
            question, spell_paths(archives, listed), lambda text: check(parse_paths(text, listed)), explanation
        )

    def _ask_copies(self, view: MachineView, roots: Sequence[bytes]) -> list[BackupAnswer]:
        if self._given.copies:
            return [self._parse_copy(os.path.realpath(of), place, roots) for of, place in self._given.copies]
        likely, series = view.propose_copies(roots), view.propose_series(roots)
        if self._given.has_no_copies or not (likely or series or self._asker.asks):
            return []
        originals = {os.fsencode(one.url): one.of for one in series}
        listed = [folder.path for folder in view.folders]
        repositories = view.list_repositories() if self._asker.asks else {}
        holders = dict.fromkeys([*(copy.holder for copy in likely), *repositories])
        default = spell_paths([*holders, *originals], listed)
        explanation = [f"{show_path(copy.path)}, of {show_path(copy.of)}" for copy in likely]
        explanation += map(views.describe_series, series)
        explanation += [f"{printable(url)}, a repository of backups" for url in repositories.values()]
        explanation += [
            "Numbers, paths, URLs (ssh://, s3://, rclone:, restic:, borg:, snapshots:), or none. They are read once a"
            " week, never changed."
        ]

        def parse(text: str) -> list[bytes]:
            places = [place for name in parse_names(text) for place in self._parse_place(name, listed)]
            return [os.fsencode(repositories.get(place, os.fsdecode(place))) for place in places]

        places = self._asker.ask("Which backups should be compared with your files?", default, parse, explanation)
        found = [BackupAnswer(copy.of, os.fsdecode(copy.path)) for copy in likely if copy.holder in places]
        others = [place for place in places if not any(copy.holder == place for copy in likely)]
        return found + [
            self._parse_copy(originals.get(place) or self._ask_original(place, roots), place, roots) for place in others
        ]

    def _parse_place(self, name: str, listed: Sequence[bytes]) -> list[bytes]:
        return [os.fsencode(name)] if ":" in name else parse_paths(name, listed)

    def _parse_copy(self, of: bytes, place: bytes, roots: Sequence[bytes]) -> BackupAnswer:
        """Check what was given as a copy, and return it as the configuration has it."""
        if not any(is_inside(of, root.rstrip(b"/")) for root in roots):
            raise ConfigError(f"{show_path(of)}: lies in none of the folders to watch, so it can't be compared")
        try:
            url = parse_copy_url(os.fsdecode(place))
        except ValueError as error:
            raise ConfigError(f"{show_path(place)}: the place of a backup {error}") from error
        if (problem := find_copy_problem(place) or find_name_problem(place)) is not None:
            raise ConfigError(f"{show_path(place)}: {problem}")
        return BackupAnswer(of, url, self._ask_password(url))

    def _ask_password(self, url: str) -> PasswordSource:
        """Return where the service finds the password of a repository; ask if the environment does not tell."""
        try:
            found = find_password_source(url)
        except ConfigError as error:
            if not self._asker.asks:
                raise ConfigError(f"{printable(url)}: {error}") from error
            found = PasswordSource()
        if any(found) or not self._asker.asks or not has_password(url):
            return found

        def parse(text: str) -> PasswordSource:
            path = b"" if text == NONE else os.path.abspath(os.path.expanduser(os.fsencode(text)))
            if path and not os.path.isfile(path):
                raise ConfigError(f"{show_path(path)}: there is no such file")
            return PasswordSource(password_file=path)

        explanation = ["Only its name is written down. The service reads it as the user that it runs as."]
        return self._asker.ask(f"Which file has the password of {printable(url)}?", NONE, parse, explanation)

    def _ask_original(self, place: bytes, roots: Sequence[bytes]) -> bytes:
        if len(roots) == 1:
            return roots[0]

        def parse(text: str) -> bytes:
            (path,) = parse_paths(text, roots) if text.isdecimal() else [os.fsencode(text)]
            return self._parse_copy(os.path.realpath(path), place, roots)[0]

        lines = [f"{number}  {show_path(root)}" for number, root in enumerate(roots, 1)]
        return self._asker.ask(f"Which folder is {show_path(place)} a backup of?", "1", parse, lines)

    def _ask_windows(self) -> str:
        def parse(text: str) -> str:
            read_windows(text)
            return text

        if self._given.windows is not None:
            try:
                return parse(self._given.windows)
            except ValueError as error:
                raise ConfigError(f"--window: {error}") from error
        explanation = [
            "When few people need the disks: 01:00-06:00, or mon-fri 01:00-06:00, sat,sun 00:00-24:00.",
        ]
        return self._asker.ask("When may files be verified?", self._base.schedule.scrub, parse, explanation)

    def _ask_interval(self, loads: Sequence[tuple[Workload, list[bytes]]], windows: str) -> int:
        before = self._base.defaults.verify_every_s
        proposed = max(propose_days((load for load, _ in loads), windows) * _DAY_S, before)
        if self._given.verify_every_s is not None:
            proposed = self._given.verify_every_s
            if proposed < _DAY_S:
                raise ConfigError("--verify-every: must be at least 1 day: files are verified once a day")
        lines = [views.describe_workload(load, paths, windows, proposed) for load, paths in loads]
        if self._given.verify_every_s is not None or not self._asker.asks:
            for line in lines:
                self._output.say(wrap(line))
            return proposed
        question = "Within which time should every file be verified?"
        return self._asker.ask(question, spell_duration(proposed), duration(_DAY_S), lines)
