"""How the options of an rclone remote leave the command line."""

from __future__ import annotations

import pytest

from integrity.copies.rclone.program import hide_options


@pytest.mark.parametrize(
    ("spec", "expected", "environment"),
    [
        ("remote:path", "remote:path", {}),
        ("/a/path,with=commas:and colons", "/a/path,with=commas:and colons", {}),
        ("remote:path,a=b:c", "remote:path,a=b:c", {}),
        (":local:/path", ":local:/path", {}),
        (
            ":sftp,host=h,pass=p:dir:sub",
            "integritycopy:dir:sub",
            {"INTEGRITYCOPY_TYPE": "sftp", "INTEGRITYCOPY_HOST": "h", "INTEGRITYCOPY_PASS": "p"},
        ),
        ("disk,flag:x", "disk:x", {"DISK_FLAG": "true"}),
        ("disk,a='it''s, so: yes',b=:x", "disk:x", {"DISK_A": "it's, so: yes", "DISK_B": ""}),
        (
            ':alias,remote="/a,""b"":c":x',
            "integritycopy:x",
            {"INTEGRITYCOPY_TYPE": "alias", "INTEGRITYCOPY_REMOTE": '/a,"b":c'},
        ),
        ("disk,a=b", "disk,a=b", {}),
        ("disk,a.b=c:x", "disk,a.b=c:x", {}),
    ],
)
def test_options_go_to_the_environment(spec: str, expected: str, environment: dict[str, str]) -> None:
    """What rclone would take for options of the remote is not on its command line; all else stays as it is."""
    found = hide_options(spec)

    assert expected == found.spec
    assert {f"RCLONE_CONFIG_{name}": value for name, value in environment.items()} == found.environment
