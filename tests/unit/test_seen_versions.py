"""What versions of backups have of a file, as it is told with a finding."""

from integrity.model import SeenVersion
from integrity.views.copies import join_seen

_DAY_S = 86_400


def test_versions_that_have_the_same_stand_together() -> None:
    """By copy, the newest first; a content that comes back is another span."""
    seen = [
        SeenVersion(copy, f"v{day}", day * _DAY_S, content, is_silent)
        for copy, day, content, is_silent in (
            ("a", 5, "differs", True),
            ("a", 4, "same", False),
            ("a", 3, "same", False),
            ("a", 2, "differs", True),
            ("b", 9, "missing", False),
        )
    ]
    joined = join_seen(seen)
    expected = [("differs", 1, 5, 5), ("same", 2, 3, 4), ("differs", 1, 2, 2)]
    assert expected == [
        (one.content, one.versions, one.first_at // _DAY_S, one.last_at // _DAY_S) for one in joined["a"]
    ]
    assert ["not in the backup, 1 version, 1970-01-10 00:00"] == [str(one) for one in joined["b"]]
