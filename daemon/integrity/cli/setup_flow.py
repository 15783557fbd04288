"""
Ask the questions of ``integrity setup``: which folders, which backups, when, and the page.

The proposals come from ``jobs.setup``; alerts have a module of their own; ``setup_finish`` does what was answered.
Nothing is proposed that opens a port or lets a browser change something.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from integrity import program
from integrity.cli.setup_alerts import TestedWay, ask_mail, ask_push
from integrity.cli.setup_questions import NONE, Asker, Dialog, parse_choice, parse_names, parse_paths, spell_paths, wrap
from integrity.cli.web import PAGE_UNIT, find_state_folder, open_passwords
from integrity.config import Config, Web
from integrity.config.parsers import duration, parse_copy_url
from integrity.errors import CatalogError, ConfigError, printable, show_path
from integrity.extras import require_web
from integrity.jobs.setup.look import MachineView, Workload, look_around, propose_days
from integrity.jobs.setup.mail_ways import find_user_name
from integrity.jobs.setup.proposal import (
    Answers,
    BackupAnswer,
    PageChoice,
    PagePowers,
    PageReach,
    PasswordSource,
    drop_nested,
    find_copy_problem,
    find_lan_address,
    find_name_problem,
    find_password_source,
    find_reach,
    has_password,
    make_config,
    make_page_settings,
    require_free_port,
    require_usable_root,
)
from integrity.jobs.targets import is_inside
from integrity.service.systemd.units import PageUnits, find_page_units
from integrity.units import read_windows, spell_duration
from integrity.views import setup as views

if TYPE_CHECKING:
    from integrity.cli.output import Output

_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class SetupResult:
    """The configuration that was agreed on, and how the tests of alerts went."""

    config: Config
    mail: TestedWay
    push: TestedWay
    page: PageChoice
    size_bytes: int
    record_s: float


def ask_everything(dialog: Dialog) -> SetupResult:
    """
    Ask the questions, in their order.

    Raises:
        ConfigError: an answer that was given as an option can't be used.
        AppError: the test failed: damage is not found here.
    """
    home = b"" if os.geteuid() == 0 else os.path.realpath(os.path.expanduser(b"~"))
    dialog.output.say("Looking at disks and folders ...")
    recorded = _find_recorded(dialog)
    view = look_around(home, list(dict.fromkeys([*_find_configured(dialog), *recorded])))
    _show(dialog, view)
    roots = _ask_roots(dialog, view, recorded)
    for path in roots:
        view = view.with_folder(path)
    outer = drop_nested(roots)
    archives = _ask_archives(dialog, view, outer)
    copies = _ask_copies(dialog, view, outer)
    windows = _ask_windows(dialog)
    loads = view.measure(roots)
    verify_every_s = _ask_interval(dialog, loads, windows)
    mail, push, address = ask_mail(dialog), ask_push(dialog), find_lan_address()
    page = _ask_page(dialog, address)
    answers = Answers(
        tuple(roots),
        tuple(archives),
        tuple(copies),
        windows,
        verify_every_s,
        mail.config.mail,
        push.config.alerts.apprise,
        make_page_settings(dialog.base.web, page, address),
        home,
        view.mount_points,
    )
    config = replace(make_config(dialog.base, answers), catalog=dialog.session.catalog_path)
    total = sum(load.size_bytes for load, _ in loads)
    record_s = max((load.duration_s for load, _ in loads), default=0.0)
    return SetupResult(config, mail, push, page, total, record_s)


def _find_configured(dialog: Dialog) -> list[bytes]:
    return [root.path for root in dialog.base.roots if os.path.isdir(root.path)]


def _find_recorded(dialog: Dialog) -> list[bytes]:
    if not os.path.exists(dialog.session.catalog_path):
        return []
    from integrity.catalog.roots import find_roots

    with (
        suppress(CatalogError),  # the service reports it
        dialog.session.open_catalog(writes=False) as catalog,
        catalog.read() as connection,
    ):
        return [root.path for root in find_roots(connection) if os.path.isdir(root.path)]
    return []


def _show(dialog: Dialog, view: MachineView) -> None:
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
        dialog.output.give("setup_folder", views.describe_folder_object(row, [*view.copies, *view.series]))
    say = dialog.output.say
    say()
    say("Folders with data:" if rows else "No disks or folders with data were found.")
    for line in views.list_folders(rows):
        say(wrap(line))
    if view.left_out:
        say(f"  {view.left_out:,} more with less data are not listed; name them by path if they matter.")
    for path, reason in view.refused:
        dialog.output.warn(f"{show_path(path)}: left out: {reason}")


def _ask_roots(dialog: Dialog, view: MachineView, recorded: Sequence[bytes]) -> list[bytes]:
    """Ask for the folders to watch; a configured one whose disk is absent stays."""
    absent = [root.path for root in dialog.base.roots if not os.path.isdir(root.path)]
    for path in absent:
        dialog.output.say(wrap(f"{show_path(path)}: not there now; stays in the configuration"))
    listed = [folder.path for folder in view.folders]

    def parse(text: str) -> list[bytes]:
        paths = parse_paths(text, listed)
        if not paths:
            raise ConfigError("at least one folder must be watched; name one: --root FOLDER, or its path here")
        for path in paths:
            require_usable_root(path)
        return paths

    if dialog.given.roots:
        for path in dialog.given.roots:
            require_usable_root(os.path.realpath(path))
        return [*map(os.path.realpath, dialog.given.roots), *absent]
    proposed = _find_configured(dialog) or [*recorded, *view.propose_roots()]
    usable = [path for path in listed if path in proposed and find_name_problem(path) is None]
    default = spell_paths(usable, listed) if usable else ""
    explanation = ["Numbers or paths, with commas. Their files are read, never changed."]
    return dialog.asker.ask("Which folders should be watched?", default, parse, explanation) + absent


def _ask_archives(dialog: Dialog, view: MachineView, roots: Sequence[bytes]) -> list[bytes]:
    listed = [folder.path for folder in view.folders]

    def check(paths: list[bytes]) -> list[bytes]:
        for path in paths:
            if path not in roots:
                raise ConfigError(f"{show_path(path)}: not one of the folders to watch")
        return paths

    if dialog.given.archives:
        return check([os.path.realpath(path) for path in dialog.given.archives if path != NONE.encode()])
    archives = [root.path for root in dialog.base.roots if root.policy == "archive" and root.path in roots]
    archives = list(dict.fromkeys([*archives, *view.propose_archives(roots)]))
    if not archives:
        return []
    explanation = ["If a file in an archive changes or disappears, you are told."]
    question = "Which of these are archives?"
    return dialog.asker.ask(
        question, spell_paths(archives, listed), lambda text: check(parse_paths(text, listed)), explanation
    )


def _ask_copies(dialog: Dialog, view: MachineView, roots: Sequence[bytes]) -> list[BackupAnswer]:
    if dialog.given.copies:
        return [_parse_copy(dialog, os.path.realpath(of), place, roots) for of, place in dialog.given.copies]
    likely, series = view.propose_copies(roots), view.propose_series(roots)
    if dialog.given.no_copies or not (likely or series or dialog.asker.asks):
        return []
    originals = {os.fsencode(one.url): one.of for one in series}
    listed = [folder.path for folder in view.folders]
    repositories = view.list_repositories() if dialog.asker.asks else {}
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
        named = ([os.fsencode(name)] if ":" in name else parse_paths(name, listed) for name in parse_names(text))
        places = [place for one in named for place in one]
        return [os.fsencode(repositories.get(place, os.fsdecode(place))) for place in places]

    places = dialog.asker.ask("Which backups should be compared with your files?", default, parse, explanation)
    found = [BackupAnswer(copy.of, os.fsdecode(copy.path)) for copy in likely if copy.holder in places]
    for place in places:
        if not any(copy.holder == place for copy in likely):
            of = originals.get(place) or _ask_original(dialog, place, roots)
            found.append(_parse_copy(dialog, of, place, roots))
    return found


def _parse_copy(dialog: Dialog, of: bytes, place: bytes, roots: Sequence[bytes]) -> BackupAnswer:
    """Check what was given as a copy, and return it as the configuration has it."""
    if not any(is_inside(of, root.rstrip(b"/")) for root in roots):
        raise ConfigError(f"{show_path(of)}: lies in none of the folders to watch, so it can't be compared")
    try:
        url = parse_copy_url(os.fsdecode(place))
    except ValueError as error:
        raise ConfigError(f"{show_path(place)}: the place of a backup {error}") from error
    if (problem := find_copy_problem(place) or find_name_problem(place)) is not None:
        raise ConfigError(f"{show_path(place)}: {problem}")
    return BackupAnswer(of, url, _ask_password(dialog, url))


def _ask_password(dialog: Dialog, url: str) -> PasswordSource:
    """Return where the service finds the password of a repository; ask if the environment does not tell."""
    try:
        found = find_password_source(url)
    except ConfigError as error:
        if not dialog.asker.asks:
            raise ConfigError(f"{printable(url)}: {error}") from error
        found = PasswordSource()
    if any(found) or not dialog.asker.asks or not has_password(url):
        return found

    def parse(text: str) -> PasswordSource:
        path = b"" if text == NONE else os.path.abspath(os.path.expanduser(os.fsencode(text)))
        if path and not os.path.isfile(path):
            raise ConfigError(f"{show_path(path)}: there is no such file")
        return PasswordSource(password_file=path)

    explanation = ["Only its name is written down. The service reads it as the user that it runs as."]
    return dialog.asker.ask(f"Which file has the password of {printable(url)}?", NONE, parse, explanation)


def _ask_original(dialog: Dialog, place: bytes, roots: Sequence[bytes]) -> bytes:
    if len(roots) == 1:
        return roots[0]

    def parse(text: str) -> bytes:
        (path,) = parse_paths(text, roots) if text.isdecimal() else [os.fsencode(text)]
        return _parse_copy(dialog, os.path.realpath(path), place, roots)[0]

    lines = [f"{number}  {show_path(root)}" for number, root in enumerate(roots, 1)]
    return dialog.asker.ask(f"Which folder is {show_path(place)} a backup of?", "1", parse, lines)


def _ask_windows(dialog: Dialog) -> str:
    def parse(text: str) -> str:
        read_windows(text)
        return text

    if dialog.given.windows is not None:
        try:
            return parse(dialog.given.windows)
        except ValueError as error:
            raise ConfigError(f"--window: {error}") from error
    explanation = ["When few people need the disks: 01:00-06:00, or mon-fri 01:00-06:00, sat,sun 00:00-24:00."]
    return dialog.asker.ask("When may files be verified?", dialog.base.schedule.scrub, parse, explanation)


def _ask_interval(dialog: Dialog, loads: Sequence[tuple[Workload, list[bytes]]], windows: str) -> int:
    before = dialog.base.defaults.verify_every_s
    proposed = max(propose_days((load for load, _ in loads), windows) * _DAY_S, before)
    if dialog.given.verify_every_s is not None:
        proposed = dialog.given.verify_every_s
        if proposed < _DAY_S:
            raise ConfigError("--verify-every: must be at least 1 day: files are verified once a day")
    lines = [views.describe_workload(load, paths, windows, proposed) for load, paths in loads]
    if dialog.given.verify_every_s is not None or not dialog.asker.asks:
        for line in lines:
            dialog.output.say(wrap(line))
        return proposed
    question = "Within which time should every file be verified?"
    return dialog.asker.ask(question, spell_duration(proposed), duration(_DAY_S), lines)


def _ask_page(dialog: Dialog, address: str) -> PageChoice:
    """Ask whether there is to be a page, and what it may do; nothing is proposed that opens a port or changes files."""
    installed = PageUnits() if dialog.is_users else find_page_units()
    reach = _ask_reach(dialog, address, installed)
    if reach is not PageReach.NONE:
        return PageChoice(reach, _ask_powers(dialog, installed))
    if dialog.given.page_actions:
        raise ConfigError("--page-actions: there is no page; add --page local, or --page lan")
    return PageChoice()


def _ask_reach(dialog: Dialog, address: str, installed: PageUnits) -> PageReach:
    from integrity.web.certificate import require_cryptography

    def parse(text: str) -> PageReach:
        reach = PageReach(parse_choice(*PageReach)(text))
        if reach is not PageReach.NONE:
            require_web()
            if not (dialog.is_users or installed.has_page):
                require_free_port(dialog.base.web)
        if reach is PageReach.LAN:
            require_cryptography()
            if not address:
                raise ConfigError("this machine has no address in a network; connect it, or choose local")
        return reach

    if dialog.given.page is not None:
        return parse(dialog.given.page)
    default = find_reach(dialog.base.web, is_installed=installed.has_page)
    question = f"Should there be a page for browsers? {'none, local, or lan' if address else 'none, or local'}"
    explanation = [*views.explain_reach(dialog.base.web, address, find_login())]
    return dialog.asker.ask(question, default, parse, explanation)


def _ask_powers(dialog: Dialog, installed: PageUnits) -> PagePowers:
    choices = [PagePowers.LOOK, PagePowers.DECIDE] if dialog.is_users else list(PagePowers)

    def parse(text: str) -> PagePowers:
        return PagePowers(parse_choice(*choices)(text))

    if dialog.given.page_actions is not None:
        return parse(dialog.given.page_actions)
    default = PagePowers.DECIDE if dialog.base.web.actions else PagePowers.LOOK
    default = PagePowers.REPAIR if default in choices and installed.may_repair else default
    question = f"What may be done on the page? {', '.join(choices[:-1])} or {choices[-1]}"
    explanation = [views.POWERS_EXPLAINED[one] for one in choices]
    return dialog.asker.ask(question, default, parse, explanation)


def find_login() -> str:
    """Return USER@HOST, as somebody on another machine has to give it to ssh."""
    user = os.environ.get("SUDO_USER") or find_user_name()
    return f"{user}@{socket.gethostname()}"


def finish_page(output: Output, asker: Asker, web: Web, choice: PageChoice, *, is_running: bool) -> None:
    """Ask for the password of a page that has none, and say how to reach the page."""
    from integrity.web.certificate import find_certificate

    passwords = open_passwords(PAGE_UNIT)
    if asker.asks and not passwords.is_set:
        passwords.set_password(_ask_page_password(output, asker))
    own = find_certificate(find_state_folder(PAGE_UNIT)) if web.self_signed and is_running else None
    facts = views.PageFacts(
        web,
        choice,
        find_login(),
        own and own.ends_at,
        own.fingerprint if own else "",
        "" if is_running else program.command("web"),
        has_password=passwords.is_set,
    )
    for line in views.describe_page_access(facts):
        output.say(wrap(line))


def _ask_page_password(output: Output, asker: Asker) -> str:
    from integrity.web.passwords import SHORTEST_PASSWORD

    question = f"Choose the password of the page, {SHORTEST_PASSWORD} characters or more (not shown)"
    while True:
        password = asker.ask_secret(question)
        if len(password) < SHORTEST_PASSWORD:
            output.tell(wrap(f"   it needs at least {SHORTEST_PASSWORD} characters"))
        elif password == asker.ask_secret("The same again (not shown)"):
            return password
        else:
            output.tell(wrap("   these were not the same"))
