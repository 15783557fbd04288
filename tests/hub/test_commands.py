"""``integrity hub``: what its commands print, and that the check finds damage."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from integrity.hub import audit, schema
from integrity.hub.database import HubDatabase
from integrity.hub.schema import SCHEMA_REVISION, file, member, member_folder
from support.cli import Box
from support.hub_reports import Stream, Tree, make_file, make_finding, make_heartbeat, make_root
from support.hubserver import HubServerProcess
from support.warmstart import get_warm_start

TREE = Tree({b"": [make_file(b"a")], b"x": [make_file(b"b")], b"x/y": [make_file(b"c")]})


class HubCommands:
    """The commands of a hub that does not run."""

    def __init__(self, box: Box, url: str) -> None:
        setting = f'database = "{url}"\n' if "://" in url else ""
        box.configure(f"[hub_server]\n{setting}")
        self._environment = {**box.environment, "STATE_DIRECTORY": url.rpartition("/")[0]}

    def run(self, *arguments: str, expect: int = 0) -> str:
        code, out, err = get_warm_start().run(arguments, self._environment, None, timeout_s=60)
        assert expect == code, (out + err).decode()
        return (out + err).decode()


def test_tables_are_made_by_migrate(integrity: Box, empty_url: str) -> None:
    """PostgreSQL needs the command once; without it every other one says so."""
    hub = HubCommands(integrity, empty_url)
    if "://" in empty_url:
        for command in (("run",), ("add", "nas"), ("list",), ("revoke", "nas")):
            assert "hub migrate" in hub.run("hub", *command, expect=4)
        assert "hub migrate" in hub.run("hub", "check", expect=4)
    else:
        assert " hub run\n" in hub.run("hub", "list", expect=4)
        assert not Path(empty_url).exists()

    assert f"created (schema {SCHEMA_REVISION})" in hub.run("hub", "migrate")
    assert f"up to date (schema {SCHEMA_REVISION})" in hub.run("hub", "migrate")
    assert "all is well. Checked 0 boxes, 0 folders, 0 files." in hub.run("hub", "check")


def test_boxes_are_added_listed_and_revoked(integrity: Box, hub_url: str) -> None:
    """Each step is in the audit log, with the name of who took it; the token is not."""
    hub = HubCommands(integrity, hub_url)
    assert "hub add BOX" in hub.run("hub", "list")
    token = json.loads(hub.run("--json", "hub", "add", "nas"))["token"]
    assert "hub revoke nas" in hub.run("hub", "add", "nas", expect=2)
    assert "nas: has not reported yet" in hub.run("hub", "list")
    hub.run("hub", "revoke", "nas")
    assert "nas: revoked" in hub.run("hub", "list")
    assert "hub list" in hub.run("hub", "revoke", "other", expect=2)

    database = HubDatabase.open(hub_url)
    with database.read() as c:
        entries = audit.find_entries(c)
    database.close()
    assert [("revoke_box", "nas"), ("add_box", "nas")] == [(entry.verb, entry.subject) for entry in entries]
    assert {"command line"} == {entry.address for entry in entries}
    assert token not in repr(entries)


def test_grants_are_given_with_the_token_and_changed_later(integrity: Box, hub_url: str) -> None:
    """They stay when the box gets a new token; each change is in the audit log."""
    hub = HubCommands(integrity, hub_url)
    added = json.loads(hub.run("--json", "hub", "add", "nas", "--set", "photos", "--set", "music"))
    assert (["music", "photos"], []) == (added["sets"], added["trees"])
    assert "nas may be in replica sets: music, photos; shared trees: archive." in hub.run(
        "hub", "allow", "nas", "--tree", "archive"
    )
    assert "nas may be in replica sets: photos." in hub.run(
        "hub", "allow", "nas", "--set", "music", "--tree", "archive", "--remove"
    )
    hub.run("hub", "revoke", "nas")
    again = json.loads(hub.run("--json", "hub", "add", "nas", "--tree", "t"))
    assert (["photos"], ["t"]) == (again["sets"], again["trees"])
    shown = json.loads(hub.run("--json", "hub", "allow", "nas"))
    assert ("hub_box_allowed", "nas", ["photos"], ["t"]) == tuple(
        shown[key] for key in ("type", "box", "sets", "trees")
    )

    assert "no replica set and no shared tree" in hub.run("hub", "add", "garage")
    assert "hub add cellar" in hub.run("hub", "allow", "cellar", expect=2)
    assert "not a name" in hub.run("hub", "allow", "nas", "--set", "a\nb", expect=2)
    assert "give what to take back" in hub.run("hub", "allow", "nas", "--remove", expect=2)
    with closing(HubDatabase.open(hub_url)) as database, database.read() as c:
        verbs = [entry.verb for entry in audit.find_entries(c)]
    assert ["add_box", "add_box", "revoke_box", "disallow", "allow", "add_box"] == verbs


def test_boxes_are_listed_the_worst_first_with_their_silence(integrity: Box, hub_url: str) -> None:
    """A box that fell silent stands before those that never came, and those that may not come any more."""
    hub = HubCommands(integrity, hub_url)
    hub.run("hub", "add", "nas")
    hub.run("hub", "revoke", "nas")
    hub.run("hub", "add", "attic")
    hub.run("hub", "add", "cellar")
    with closing(HubDatabase.open(hub_url)) as opened, opened.transaction() as c:
        seen = {"seen_at": int(time.time()) - 3 * 86400, "state": "ok", "sentence": "All is well."}
        c.execute(sa.update(schema.box).where(schema.box.c.name == "cellar").values(**seen))
    lines = hub.run("hub", "list").splitlines()
    assert ["cellar", "attic", "nas"] == [line.partition(":")[0] for line in lines]
    assert lines[0].startswith("cellar: SILENT for 3 days")
    assert "before: All is well." in lines[0]
    objects = [json.loads(line) for line in hub.run("--json", "hub", "list").splitlines()]
    assert ["silent", "waiting", "revoked"] == [one["health"] for one in objects if one["type"] == "hub_box"]
    assert 3 * 86400 <= objects[0]["silence_s"] < 3 * 86400 + 600


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('listen = "0.0.0.0:8433"', "sent in plain text"),
        ('certificate = "/none.pem"', "belong together"),
        ('database = "mysql://x"', "postgresql://"),
        ('database = "postgresql://hub:secret@h/hub"', "passfile"),
        ('database = "postgresql://h/hub?password=secret"', "passfile"),
    ],
)
def test_wrong_configuration_is_refused(integrity: Box, tmp_path: Path, settings: str, words: str) -> None:
    """What would be unsafe does not start, and a password is not repeated."""
    hub = HubCommands(integrity, str(tmp_path / "hub.db"))
    integrity.configure(f"[hub_server]\n{settings}\n")
    said = hub.run("hub", "run", expect=2)

    assert words in said
    assert "secret" not in said


def report(hub: HubServerProcess) -> None:
    """Report a tree and a finding."""
    nas, stream = hub.add("nas"), Stream().begin(make_finding(1))
    nas.call("heartbeat", make_heartbeat(stream.id, make_root(1, tree=TREE.top), newest=2))
    assert {"last": 2} == nas.post("messages", stream.body()).object
    nas.send_tree(TREE.parts())
    assert {"settled": True} == nas.call("trees/1/settle", {"protocol": 1, "tree": TREE.top.hex()})


def test_check_finds_damage(integrity: Box, hub_url: str) -> None:
    """Rows that are not what the boxes reported are named with their folder; the exit code says so."""
    with HubServerProcess(integrity, hub_url) as hub:
        report(hub)
        hub.stop()
        assert "all is well. Checked 1 boxes, 3 folders, 3 files." in hub.command("hub", "check")
        database = HubDatabase.open(hub_url)
        for damage, words in (
            (
                sa.update(file).where(file.c.name == b"b").values(size_bytes=7),
                "1 folders are not what was reported (x)",
            ),
            (sa.update(member_folder).values(subtree=bytes(16)), "the top of its tree"),
            (sa.update(member).values(settled_tree=b"1" * 16), "the top of its tree"),
            (sa.delete(file).where(file.c.name == b"c"), "2 files checked"),
            (sa.delete(member_folder), "belong to no folder"),
        ):
            with database.transaction() as c:
                c.execute(damage)
            assert words in hub.command("hub", "check", expect=4)
        database.close()
