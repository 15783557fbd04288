"""
The kinds of findings of the hub: one entry for each, with everything that depends on the kind.

Findings of boxes have their own table (``integrity.kinds``), and keep their kinds when the hub shows them. Both use the
same words. The order is that of gravity.

I1  Each kind has exactly one entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from integrity.kinds import Phrase, Weight


class HubFindingKind(StrEnum):
    """What a finding of the hub says."""

    REPLICA_DAMAGED = "replica_damaged"
    REPLICA_LOST = "replica_lost"
    BOX_SILENT = "box_silent"
    REPLICA_CONFLICT = "replica_conflict"
    REPLICA_DIFFERS = "replica_differs"
    REPLICA_MISSING = "replica_missing"
    REPLICA_STALE = "replica_stale"
    REPLICA_RENAMED = "replica_renamed"
    BOX_FULL = "box_full"
    CLOCK_WRONG = "clock_wrong"
    TOKEN_SHARED = "token_shared"  # noqa: S105 - no secret
    SET_REFUSED = "set_refused"
    TREE_DAMAGED = "tree_damaged"
    TREE_UNREAD = "tree_unread"
    TREE_OTHER_DISK = "tree_other_disk"
    TREE_OVERDUE = "tree_overdue"


class HubCertainty(StrEnum):
    """How sure a finding of the hub is."""

    PROVEN = "proven"
    LIKELY = "likely"
    UNDECIDED = "undecided"  # the hub does not know which box is right


@dataclass(frozen=True, slots=True, kw_only=True)
class HubKindEntry:
    """
    What follows from the kind of a finding.

    Attributes:
        headline: what people read in place of the kind; ``{box}`` stands for the name of the box.
        phrase: for the subject of a mail.
        of_many: ends "N files of SET ..." where one finding stands for many files; ``{box}`` as above.
        how_bad: the second sentence of a mail.
        listed_at_most: up to so many files of one box have findings of their own; beyond, one finding stands for all.
        is_urgent: the first mail about this kind is sent whatever the limits.
        waits: a mail is sent only if the finding lasts: replication needs time, and this is what it looks like.
    """

    kind: HubFindingKind
    weight: Weight
    headline: str
    phrase: Phrase
    of_many: str = ""
    how_bad: str
    listed_at_most: int = 100
    is_urgent: bool = False
    waits: bool = False


TABLE = (
    HubKindEntry(
        kind=HubFindingKind.REPLICA_DAMAGED,
        weight=Weight.PROBLEM,
        headline="DAMAGED on {box}",
        phrase=Phrase("damaged file", "damaged files"),
        of_many="are damaged on {box}",
        how_bad="Only the named box is affected.",
        listed_at_most=1000,
        is_urgent=True,
    ),
    HubKindEntry(
        kind=HubFindingKind.REPLICA_LOST,
        weight=Weight.PROBLEM,
        headline="Gone or unreadable on {box}",
        phrase=Phrase("file gone or unreadable", "files gone or unreadable"),
        of_many="are gone or unreadable on {box}",
        how_bad="Only the named box is affected.",
        listed_at_most=1000,
        is_urgent=True,
    ),
    HubKindEntry(
        kind=HubFindingKind.TREE_DAMAGED,
        weight=Weight.PROBLEM,
        headline="Problem in a shared tree",
        phrase=Phrase("problem in a shared tree", "problems in a shared tree"),
        how_bad="Only the named files of the shared tree are affected.",
        is_urgent=True,
    ),
    HubKindEntry(
        kind=HubFindingKind.BOX_SILENT,
        weight=Weight.GAP,
        headline="{box} does not report",
        phrase=Phrase("box does not report", "boxes do not report"),
        how_bad="Nothing is known about its files until it reports again.",
        is_urgent=True,
    ),
    HubKindEntry(
        kind=HubFindingKind.TOKEN_SHARED,
        weight=Weight.GAP,
        headline="Two machines use the token of {box}",
        phrase=Phrase("box whose token two machines use", "boxes whose tokens two machines use"),
        how_bad="Nothing that either of them reports is stored until this is settled; open findings stay open.",
        is_urgent=True,
    ),
    HubKindEntry(
        kind=HubFindingKind.REPLICA_CONFLICT,
        weight=Weight.PROBLEM,
        headline="Changed on several boxes",
        phrase=Phrase("file changed on several boxes", "files changed on several boxes"),
        of_many="were changed on several boxes",
        how_bad="Replicating now would overwrite one of the changes.",
        waits=True,
    ),
    HubKindEntry(
        kind=HubFindingKind.REPLICA_DIFFERS,
        weight=Weight.PROBLEM,
        headline="Boxes have different content",
        phrase=Phrase("file differs between boxes", "files differ between boxes"),
        of_many="have different content on several boxes",
        how_bad="The hub can't tell which box is right.",
        waits=True,
    ),
    HubKindEntry(
        kind=HubFindingKind.REPLICA_MISSING,
        weight=Weight.PROBLEM,
        headline="Missing on {box}",
        phrase=Phrase("file missing on a box", "files missing on a box"),
        of_many="are missing on {box}",
        how_bad="Other boxes still have the content.",
        waits=True,
    ),
    HubKindEntry(
        kind=HubFindingKind.REPLICA_STALE,
        weight=Weight.PROBLEM,
        headline="Out of date on {box}",
        phrase=Phrase("file out of date on a box", "files out of date on a box"),
        of_many="are older versions on {box}",
        how_bad="Another box has the newer version.",
        waits=True,
    ),
    HubKindEntry(
        kind=HubFindingKind.REPLICA_RENAMED,
        weight=Weight.PROBLEM,
        headline="Renamed on {box}",
        phrase=Phrase("file renamed on a box", "files renamed on a box"),
        of_many="were renamed on {box}",
        how_bad="No content is missing: the boxes have it under different names.",
        waits=True,
    ),
    HubKindEntry(
        kind=HubFindingKind.TREE_OVERDUE,
        weight=Weight.GAP,
        headline="A shared tree is not verified in time",
        phrase=Phrase("shared tree is not verified in time", "shared trees are not verified in time"),
        how_bad="This does not mean that a file is damaged: damage would be found later than promised.",
    ),
    HubKindEntry(
        kind=HubFindingKind.TREE_OTHER_DISK,
        weight=Weight.GAP,
        headline="{box} sees another disk as a shared tree",
        phrase=Phrase("machine sees another disk as a shared tree", "machines see other disks as shared trees"),
        how_bad="No file is damaged or missing because of it: the machine reads nothing until it sees the right disk.",
    ),
    HubKindEntry(
        kind=HubFindingKind.TREE_UNREAD,
        weight=Weight.GAP,
        headline="Part of a shared tree can't be checked",
        phrase=Phrase("file of a shared tree can't be checked", "files of a shared tree can't be checked"),
        how_bad="Nothing is known about what can't be read.",
    ),
    HubKindEntry(
        kind=HubFindingKind.BOX_FULL,
        weight=Weight.GAP,
        headline="The reports of {box} are refused",
        phrase=Phrase("box with refused reports", "boxes with refused reports"),
        how_bad="What happens on this box is not known until its reports are taken again. Others are not affected.",
    ),
    HubKindEntry(
        kind=HubFindingKind.SET_REFUSED,
        weight=Weight.GAP,
        headline="{box} may not be in the replica set that it names",
        phrase=Phrase("box names a set that it may not be in", "boxes name sets that they may not be in"),
        how_bad="Its files in this folder are compared with those of no other box.",
    ),
    HubKindEntry(
        kind=HubFindingKind.CLOCK_WRONG,
        weight=Weight.GAP,
        headline="The clock of {box} is wrong",
        phrase=Phrase("box with a wrong clock", "boxes with wrong clocks"),
        how_bad="The hub corrects the times that this box reports; files written there may get wrong times.",
    ),
)

HUB_KINDS = {entry.kind: entry for entry in TABLE}
HUB_GRAVITY = {entry.kind: number for number, entry in enumerate(TABLE)}

FOUND_BY_BOX = frozenset({HubFindingKind.REPLICA_DAMAGED, HubFindingKind.REPLICA_LOST})
"""What the box itself found in its file; the other kinds follow from comparing boxes."""

VOTED = frozenset(entry.kind for entry in TABLE if entry.of_many)
"""Of replicas: votes open them, and end them."""

WAITING = frozenset(entry.kind for entry in TABLE if entry.waits)
HUB_URGENT = frozenset(entry.kind for entry in TABLE if entry.is_urgent)
