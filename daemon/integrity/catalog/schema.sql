-- The tables of the catalog. Paths and names are BLOBs (R10). Words are those of model.py; flags are 0 or 1; times *_at
-- are seconds UTC, *_ns nanoseconds from stat.
--
-- I1  root.file_count is the number of the root's file rows; it changes in the same transaction as these.
-- I2  A file id is never given twice: findings and history refer to files that are gone.
-- I3  No two unresolved findings have the same root, kind, path and copy.
-- I4  A file has at most one version that is not former.

CREATE TABLE action (
    id INTEGER PRIMARY KEY, -- number of the action; rises
    at INTEGER NOT NULL,    -- when it was done
    who TEXT NOT NULL,      -- name of the user who asked for it, for people
    address TEXT NOT NULL,  -- where the request came from: an IP address, or command line
    verb TEXT NOT NULL,     -- ActionVerb
    root BLOB,              -- absolute path of the root then; null: it concerned no root
    path BLOB,              -- file or folder, relative to the root; null: the whole root, or none
    findings TEXT NOT NULL, -- findings it concerned, JSON list of numbers
    reason TEXT NOT NULL,   -- reason that the user gave; empty: none
    outcome TEXT NOT NULL   -- what was done, for people
) STRICT;

CREATE TABLE alert (
    id INTEGER PRIMARY KEY,      -- number of the message
    kind TEXT NOT NULL,          -- AlertKind
    message_id TEXT NOT NULL,    -- Message-ID of its mails: the same however often it is sent
    subject TEXT NOT NULL,       -- one line for people
    body TEXT NOT NULL,          -- the message as plain text
    html TEXT NOT NULL,          -- the message as HTML
    facts TEXT NOT NULL,         -- the message for programs, JSON
    incidents TEXT NOT NULL,     -- numbers of the findings that it is about, with blanks between them
    created_at INTEGER NOT NULL, -- when it was written; the Date of its mails
    UNIQUE (message_id)
) STRICT;

CREATE TABLE block_run (
    file_id INTEGER NOT NULL,            -- the file
    version INTEGER NOT NULL,            -- number of the version that they belong to
    run INTEGER NOT NULL,                -- number of the first run that this row covers; run n begins at block 1024 * n
    block_count INTEGER NOT NULL,        -- blocks that this row covers: up to 1024, or any number if all have equal digests
    md5 BLOB NOT NULL,                   -- MD5 of the blocks, 16 bytes each in order; empty: none taken; one for all if they are equal
    xxh3_128 BLOB NOT NULL,              -- XXH3-128 of the blocks, 16 bytes each in order; one for all if they are equal
    crc64nvme BLOB NOT NULL DEFAULT x'', -- CRC-64/NVME of the blocks, 8 bytes each in order, as md5; empty: none taken
    PRIMARY KEY (file_id, version, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE boot (
    id INTEGER PRIMARY KEY,         -- number of the boot or mount, in the order they were seen
    uuid TEXT NOT NULL,             -- boot_id of the kernel
    fs_id TEXT NOT NULL,            -- name of the file system that was mounted, as of a root; empty: the boot as a whole
    mount TEXT NOT NULL,            -- which mount of it in this boot, see mount_state.py; empty: not known, or the boot as a whole
    mount_count INTEGER,            -- how often it had been mounted for writing by then; null: not known
    first_seen_at INTEGER NOT NULL, -- when a program of ours first ran in it
    stopped_cleanly_at INTEGER,     -- when its clean end was marked; null: it may have crashed
    UNIQUE (uuid, fs_id, mount)
) STRICT;

CREATE TABLE channel (
    name TEXT PRIMARY KEY NOT NULL, -- name of the channel
    first_seen_at INTEGER NOT NULL, -- when it was first configured
    good_at INTEGER,                -- when it last worked; null: never
    failing_since INTEGER,          -- first failure since it last worked; null: it works
    failed_at INTEGER,              -- last failure; null: it works
    is_permanent INTEGER NOT NULL,  -- 1: the failure will not pass by itself
    last_error TEXT,                -- why it failed last, for people; null: it works
    told_at INTEGER                 -- when the failure was told through others; null: not yet
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    key TEXT PRIMARY KEY NOT NULL, -- uuid, created_at, next_file_id, last_backup_at, days_run, service; import/..., report/..., space/..., disk/...
    value TEXT NOT NULL            -- its value as text
) STRICT, WITHOUT ROWID;

CREATE TABLE report_change (
    id INTEGER PRIMARY KEY,   -- place in the queue
    kind TEXT NOT NULL,       -- finding | run | action | state: what is to be reported as it is when the message is written
    item_id INTEGER NOT NULL, -- number of the finding, run, or action, which may be gone; 0: none
    UNIQUE (kind, item_id)
) STRICT;

CREATE TABLE report_message (
    number INTEGER PRIMARY KEY, -- number in the stream
    at INTEGER NOT NULL,        -- when what it reports happened
    kind TEXT NOT NULL,         -- as in report_change
    item_id INTEGER NOT NULL,   -- as in report_change
    body TEXT NOT NULL          -- as it is sent, however often: JSON
) STRICT;

CREATE TABLE report_state (
    id INTEGER PRIMARY KEY,                           -- 1; while it is there, changes are queued
    url TEXT NOT NULL,                                -- the hub that the box reports to
    stream BLOB NOT NULL CHECK (length(stream) = 16), -- number of the stream of messages, random
    started_at INTEGER NOT NULL,                      -- when the stream began
    confirmed INTEGER NOT NULL,                       -- number of the last message that the hub has stored; 0: none
    chain BLOB NOT NULL CHECK (length(chain) = 16),   -- chain up to that message (reporting/protocol.py)
    complete_at INTEGER,                              -- when the hub last had everything; null: never
    failing_since INTEGER,                            -- first failure since a report was last complete; null: none
    last_error TEXT                                   -- why reporting fails, for people; null: it works
) STRICT;

CREATE TABLE root (
    id INTEGER PRIMARY KEY AUTOINCREMENT,        -- number of the root
    path BLOB NOT NULL,            -- absolute real path
    fs_id TEXT NOT NULL,           -- identity (R5): uuid of the file system and facts of its disk, or type:source; see same_place.py
    folder_inode INTEGER NOT NULL, -- identity (R5): inode number of the folder, or that of its path; see same_place.py
    fs_type TEXT NOT NULL,         -- type of the file system, for people
    state TEXT NOT NULL,           -- RootState
    state_reason TEXT,             -- why it is suspended or paused, for people
    created_at INTEGER NOT NULL,   -- when it became a root
    file_count INTEGER NOT NULL,   -- number of its file rows (I1)
    UNIQUE (path)
) STRICT;

CREATE TABLE schedule_run (
    id INTEGER PRIMARY KEY,      -- number of the entry
    schedule TEXT NOT NULL,      -- which schedule: scan, scrub, compare, ...
    root_id INTEGER,             -- the root that it was for; null: for all. It may be gone
    due_at INTEGER,              -- when it should have begun; null: asked for, not scheduled
    started_at INTEGER NOT NULL, -- when it began
    finished_at INTEGER,         -- when it ended; null: it works, or died
    outcome TEXT                 -- how it ended; null: it works, or died
) STRICT;
CREATE INDEX schedule_run_last ON schedule_run (schedule, root_id, started_at);

CREATE TABLE told (
    finding_id INTEGER PRIMARY KEY, -- the incident that was told
    certainty TEXT,                 -- its certainty as told
    blocks TEXT NOT NULL,           -- its blocks as told
    ranges TEXT NOT NULL,           -- its ranges as told
    first_told_at INTEGER NOT NULL, -- when it was told first
    swallowed_by INTEGER            -- device_failing finding that was told in its place; null: told itself
) STRICT;

CREATE TABLE checkpoint (
    id INTEGER PRIMARY KEY,                        -- number of the checkpoint
    root_id INTEGER NOT NULL REFERENCES root (id) ON DELETE CASCADE, -- the root
    path BLOB NOT NULL,                            -- the file that was being read
    purpose TEXT NOT NULL,                         -- record or verify
    size_bytes INTEGER NOT NULL,                   -- size when the digests were taken
    mtime_ns INTEGER NOT NULL,                     -- mtime when the digests were taken
    ctime_ns INTEGER NOT NULL,                     -- ctime when the digests were taken
    inode INTEGER NOT NULL,                        -- inode number when the digests were taken
    is_racy INTEGER NOT NULL,                      -- 1: mtime or ctime lay within a granule of the moment of hashing (R1)
    offset_bytes INTEGER NOT NULL,                 -- everything before it is done
    md5_state BLOB,                                -- exported state of the MD5 up to the offset; null when verifying
    bad_blocks TEXT NOT NULL,                      -- blocks that did not match so far, JSON list of numbers
    block_size_bytes INTEGER NOT NULL,             -- size of its blocks
    saved_at INTEGER NOT NULL,                     -- when it was saved
    UNIQUE (root_id, path, purpose)
) STRICT;

CREATE TABLE configured_root (
    root_id INTEGER PRIMARY KEY REFERENCES root (id) ON DELETE CASCADE -- a root that the service has seen in its configuration: taken out of there it is paused
) STRICT;

CREATE TABLE copy (
    id INTEGER PRIMARY KEY,                        -- number of the copy
    root_id INTEGER NOT NULL REFERENCES root (id) ON DELETE CASCADE, -- the root of which it holds files
    prefix BLOB NOT NULL,                          -- the folder in the root that its top stands for; empty for the root's own
    name TEXT NOT NULL,                            -- its name in the configuration, or its URL without secrets
    url TEXT NOT NULL,                             -- where it is, without secrets
    identity TEXT,                                 -- the disk and folder of a mounted one, as of a root; null: none, or not seen yet
    has_bytes INTEGER NOT NULL,                    -- 0: it has digests only, so nothing can be repaired from it
    created_at INTEGER NOT NULL,                   -- when it was first compared
    listed_at INTEGER,                             -- when it was last listed as a whole; null: never
    disk TEXT,                                     -- which of several disks that take turns at one place, as people read it; null: the first
    UNIQUE (root_id, prefix, name)
) STRICT;

CREATE TABLE delivery (
    alert_id INTEGER NOT NULL REFERENCES alert (id) ON DELETE CASCADE, -- the message
    channel TEXT NOT NULL,                           -- name of the channel that it shall go through
    attempts INTEGER NOT NULL,                       -- how often sending it failed
    next_try_at INTEGER NOT NULL,                    -- not to be tried before
    sent_at INTEGER,                                 -- when the channel took it; null: not yet
    last_error TEXT,                                 -- why the last attempt failed, for people
    PRIMARY KEY (alert_id, channel)
) STRICT, WITHOUT ROWID;

CREATE TABLE folder (
    id INTEGER PRIMARY KEY,                        -- number of the folder
    root_id INTEGER NOT NULL REFERENCES root (id) ON DELETE CASCADE, -- its root
    path BLOB NOT NULL,                            -- relative to the root; empty for the root's own
    fingerprint BLOB,                              -- Listing.fingerprint of its recorded files; null: not taken since one changed
    UNIQUE (root_id, path)
) STRICT;

CREATE TABLE gate (
    root_id INTEGER NOT NULL REFERENCES root (id) ON DELETE CASCADE, -- the root
    prefix BLOB NOT NULL,                          -- the part of the root that was asked for; empty for all of it
    passed_at INTEGER NOT NULL,                    -- when it was last let through, or its state taken as seen
    last_version_id INTEGER NOT NULL,              -- the last former version then: what came after it is looked at
    last_file_id INTEGER NOT NULL,                 -- the last number given to a file then
    PRIMARY KEY (root_id, prefix)
) STRICT, WITHOUT ROWID;

CREATE TABLE nested_mount (
    root_id INTEGER NOT NULL REFERENCES root (id) ON DELETE CASCADE, -- the root, which crosses mounts
    path BLOB NOT NULL,                            -- where something is mounted, relative to the root
    identity TEXT NOT NULL,                        -- identity (R5): that of its file system, and inode number of the folder that it shows
    PRIMARY KEY (root_id, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
    id INTEGER PRIMARY KEY,                        -- number of the run
    root_id INTEGER NOT NULL REFERENCES root (id) ON DELETE CASCADE, -- the root that it worked on
    job TEXT NOT NULL,                             -- Job
    started_at INTEGER NOT NULL,                   -- when it began
    finished_at INTEGER,                           -- when it ended; null: it works, or died
    outcome TEXT,                                  -- Outcome; null: it works, or died
    boot_id INTEGER NOT NULL REFERENCES boot (id), -- boot in which it ran
    pid INTEGER NOT NULL,                          -- process that ran it
    verified INTEGER NOT NULL,                     -- names found intact
    new INTEGER NOT NULL,                          -- names recorded for the first time
    changed INTEGER NOT NULL,                      -- names whose baseline was replaced
    damaged INTEGER NOT NULL,                      -- names with an open content finding
    missing INTEGER NOT NULL,                      -- names that are gone
    unreadable INTEGER NOT NULL,                   -- names that could not be read
    unstable INTEGER NOT NULL,                     -- names that kept changing while they were read
    skipped INTEGER NOT NULL,                      -- names that were left out, with a reason
    not_due INTEGER NOT NULL,                      -- names that were not looked into
    moved INTEGER NOT NULL,                        -- of which: recognised under another name
    bytes_read INTEGER NOT NULL,                   -- bytes read from files
    findings_opened INTEGER NOT NULL,              -- findings that it opened
    findings_open INTEGER NOT NULL,                -- findings open at its end
    duration_s REAL,                               -- how long it worked, by the monotonic clock
    error TEXT,                                    -- why it failed, for people
    copy TEXT,                                     -- name of the copy that was compared; null for other jobs
    last_file_id INTEGER                           -- highest number of a file when it ended; null: it works, or died
) STRICT;
CREATE INDEX run_root ON run (root_id);

CREATE TABLE checkpoint_run (
    checkpoint_id INTEGER NOT NULL REFERENCES checkpoint (id) ON DELETE CASCADE, -- the checkpoint
    run INTEGER NOT NULL,                                      -- as in block_run
    block_count INTEGER NOT NULL,                              -- as in block_run
    md5 BLOB NOT NULL,                                         -- as in block_run
    xxh3_128 BLOB NOT NULL,                                    -- as in block_run
    crc64nvme BLOB NOT NULL DEFAULT x'',                       -- CRC-64/NVME of the blocks, 8 bytes each in order, as md5; empty: none taken
    PRIMARY KEY (checkpoint_id, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE copy_file (
    copy_id INTEGER NOT NULL REFERENCES copy (id) ON DELETE CASCADE, -- the copy
    file_id INTEGER NOT NULL,                            -- the file; it may be gone
    version INTEGER NOT NULL,                            -- version of the baseline that the copy was held against
    vote TEXT NOT NULL,                                  -- CopyVote: what the copy said
    compared_at INTEGER NOT NULL,                        -- when
    read_at INTEGER,                                     -- when its bytes were last read; null: never, or less than that told otherwise since
    stated BLOB CHECK (length(stated) = 16),             -- XXH3-128 of what the copy stated when reading the file proved it right; else null
    found_version INTEGER,                               -- version of the baseline that the copy had when this file of it was first read
    found_digest BLOB CHECK (length(found_digest) = 16), -- XXH3-128 of what it had, if that was no recorded version
    found_size_bytes INTEGER,                            -- the size of that; null: it was a recorded version
    found_at INTEGER,                                    -- when; null: never
    found_mtime_ns INTEGER,                              -- the time that the copy had then; null: it keeps none, or older than 0011
    found_ctime_ns INTEGER,                              -- its ctime; null: the copy's file system has none to be trusted
    found_inode INTEGER,                                 -- its inode; null: the copy's file system numbers files anew
    found_as BLOB,                                       -- path in the root under whose name the copy had it; null: under its own
    had_recorded_at INTEGER,                             -- when the copy last had a recorded version before that content; null: never seen
    PRIMARY KEY (copy_id, file_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX copy_file_place ON copy_file (copy_id, found_as) WHERE found_as NOT NULL;
CREATE INDEX copy_file_content ON copy_file (copy_id, found_digest) WHERE found_digest NOT NULL;

CREATE TABLE copy_reading (
    copy_id INTEGER NOT NULL REFERENCES copy (id) ON DELETE CASCADE, -- the copy
    file_id INTEGER NOT NULL,                      -- the file whose copy was being read; it may be gone
    version INTEGER NOT NULL,                      -- version of the baseline that it was held against
    size_bytes INTEGER NOT NULL,                   -- size when the digests were taken
    mtime_ns INTEGER NOT NULL,                     -- mtime when the digests were taken
    ctime_ns INTEGER NOT NULL,                     -- ctime when the digests were taken
    inode INTEGER NOT NULL,                        -- inode number when the digests were taken
    is_racy INTEGER NOT NULL,                      -- 1: mtime or ctime lay within a granule of the moment of hashing (R1)
    offset_bytes INTEGER NOT NULL,                 -- everything before it is done
    bad_blocks TEXT NOT NULL,                      -- blocks that did not match so far, JSON list of numbers
    PRIMARY KEY (copy_id, file_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE file (
    id INTEGER PRIMARY KEY,                            -- number of the file, never given twice (I2)
    folder_id INTEGER NOT NULL REFERENCES folder (id) ON DELETE CASCADE, -- the folder that it lies in
    name BLOB NOT NULL,                                -- its name in the folder
    size_bytes INTEGER NOT NULL,                       -- size when the digests were taken
    mtime_ns INTEGER NOT NULL,                         -- mtime when the digests were taken
    ctime_ns INTEGER NOT NULL,                         -- ctime when the digests were taken
    inode INTEGER NOT NULL,                            -- inode number when the digests were taken
    is_racy INTEGER NOT NULL,                          -- 1: mtime or ctime lay within a granule of the moment of hashing (R1)
    md5 BLOB CHECK (length(md5) = 16),                 -- MD5 of the whole file; null for very sparse files
    xxh3_128 BLOB CHECK (length(xxh3_128) = 16),       -- XXH3-128 of the whole file; null if resumed in mid-file
    blake3 BLOB CHECK (length(blake3) = 32),           -- BLAKE3 of the whole file; null unless configured
    block_size_bytes INTEGER,                          -- size of its blocks; null: it fits one block and has none
    version INTEGER NOT NULL,                          -- 1 for the first baseline, one more each time it is replaced
    recorded_at INTEGER NOT NULL,                      -- when the present baseline was taken
    reason TEXT NOT NULL,                              -- BaselineReason: why it was taken
    verified_at INTEGER,                               -- when its content was last found equal to the baseline; null: never re-read
    read_how TEXT,                                     -- ReadHow of the last verification, or of the recording
    boot_id INTEGER REFERENCES boot (id),              -- newest boot or mount when it was last found intact or recorded
    is_suspect INTEGER NOT NULL,                       -- 1: ctime or inode moved since; scrubs read it early (R2)
    is_frozen INTEGER NOT NULL,                        -- 1: a finding on its content is open; the baseline stays (R6)
    crc64nvme BLOB CHECK (length(crc64nvme) = 8),      -- CRC-64/NVME of the whole file; null if older than it, or not computed
    seen_inode INTEGER,                                -- of a suspect: its inode when it was last seen, unread; null: none, or unknown
    seen_ctime_ns INTEGER,                             -- of a suspect: the ctime of that
    checked_version INTEGER,                           -- version whose own check was last tried; null: none
    own_check TEXT,                                    -- CheckResult of that
    UNIQUE (folder_id, name)
) STRICT;
CREATE INDEX file_inode ON file (inode);
CREATE INDEX file_seen_inode ON file (seen_inode) WHERE seen_inode IS NOT NULL;

CREATE TABLE finding (
    id INTEGER PRIMARY KEY AUTOINCREMENT,          -- number of the finding, never given twice: people write it down
    root_id INTEGER NOT NULL REFERENCES root (id) ON DELETE CASCADE, -- the root
    file_id INTEGER,                               -- the file; it may be gone
    path BLOB NOT NULL,                            -- relative to the root; empty when it is about the root
    kind TEXT NOT NULL,                            -- FindingKind
    certainty TEXT,                                -- Certainty
    state TEXT NOT NULL,                           -- FindingState
    opened_at INTEGER NOT NULL,                    -- when it was opened
    updated_at INTEGER NOT NULL,                   -- when anything of it last changed
    resolved_at INTEGER,                           -- when it was resolved
    resolution TEXT,                               -- why it was resolved, for people
    muted_until INTEGER,                           -- no reminders until then
    blocks TEXT NOT NULL,                          -- damaged blocks, JSON list of numbers
    block_size_bytes INTEGER,                      -- size of these blocks
    ranges TEXT NOT NULL,                          -- damaged bytes, JSON list of [offset, length]
    confirmed_reads INTEGER NOT NULL,              -- re-reads that agreed (R3)
    message TEXT NOT NULL,                         -- what it says, for people
    run_id INTEGER REFERENCES run (id),            -- run that last said so
    copy TEXT NOT NULL DEFAULT '',                 -- name of the copy that it is about; empty: the file itself, or the root
    step TEXT,                                     -- what to do next, for people; null: as for all of its kind
    command TEXT,                                  -- what does that; null: as for all of its kind, or nothing
    opened_by INTEGER,                             -- run that opened it; null: none did, or it is older than this column
    incident INTEGER,                              -- finding about another name of the same file that this one belongs to; null: itself
    versions TEXT                                  -- what versions of backups have of the file, JSON list of [copy, name, time, content, is_silent]; null: not looked at
) STRICT;
CREATE INDEX finding_file ON finding (file_id);
CREATE INDEX finding_incident ON finding (incident) WHERE state != 'resolved';
CREATE UNIQUE INDEX finding_unresolved ON finding (root_id, kind, path, copy) WHERE state != 'resolved';

CREATE TABLE parity_set (
    id INTEGER PRIMARY KEY AUTOINCREMENT,          -- number of the set
    root_id INTEGER NOT NULL REFERENCES root (id) ON DELETE CASCADE, -- the root of its files
    path BLOB NOT NULL,                            -- absolute path of its file, in the format PAR2
    slice_bytes INTEGER NOT NULL,                  -- size of a slice
    source_slices INTEGER NOT NULL,                -- slices of all its files
    recovery_slices INTEGER NOT NULL,              -- as many damaged ones can be healed
    size_bytes INTEGER NOT NULL,                   -- size of its file
    made_at INTEGER NOT NULL,                      -- when it was made
    checked_at INTEGER NOT NULL,                   -- when all of its file was last read
    is_damaged INTEGER NOT NULL,                   -- 1: its file was damaged then
    UNIQUE (path)
) STRICT;
CREATE INDEX parity_set_root ON parity_set (root_id);

CREATE TABLE parity_file (
    set_id INTEGER NOT NULL REFERENCES parity_set (id) ON DELETE CASCADE, -- the set
    file_id INTEGER NOT NULL,                            -- the file that had this content; it may be gone
    size_bytes INTEGER NOT NULL,                         -- size of the content
    md5 BLOB NOT NULL CHECK (length(md5) = 16),          -- MD5 of the content
    mode INTEGER NOT NULL,                               -- type and permissions of the file when the set was made
    uid INTEGER NOT NULL,                                -- its owner then
    gid INTEGER NOT NULL,                                -- its group then
    PRIMARY KEY (set_id, file_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX parity_file_file ON parity_file (file_id);

CREATE TABLE report_folder (
    folder_id INTEGER PRIMARY KEY REFERENCES folder (id) ON DELETE CASCADE, -- the folder
    own BLOB CHECK (length(own) = 16),                    -- digest of its files (reporting/digest_tree.py); null: being computed
    content BLOB CHECK (length(content) = 16)             -- the same of their contents; null: being computed
) STRICT;

-- What is not the baseline of a file (I4): a former one, or its candidate, which waits for a decision.
CREATE TABLE version (
    id INTEGER PRIMARY KEY AUTOINCREMENT,          -- number of the entry, never given twice: gates say how far they looked
    root_id INTEGER NOT NULL REFERENCES root (id) ON DELETE CASCADE, -- the root
    file_id INTEGER NOT NULL,                      -- the file; it may be gone
    path BLOB NOT NULL,                            -- its path; follows the file when it is moved
    number INTEGER NOT NULL,                       -- of the version; of a candidate: one more than that of the baseline
    state TEXT NOT NULL,                           -- staged: its run decides; frozen: waits for a finding; held: waits for a person; former: was the baseline
    size_bytes INTEGER,                            -- size when the digests were taken; null: the file is gone
    mtime_ns INTEGER,                              -- mtime when the digests were taken
    ctime_ns INTEGER,                              -- ctime when the digests were taken; null: not kept before schema 0004
    inode INTEGER,                                 -- inode number when the digests were taken; null: the same
    is_racy INTEGER,                               -- 1: mtime or ctime lay within a granule of the moment of hashing (R1)
    md5 BLOB CHECK (length(md5) = 16),             -- MD5 of the whole file; null for very sparse files
    xxh3_128 BLOB CHECK (length(xxh3_128) = 16),   -- XXH3-128 of the whole file; null if resumed in mid-file
    blake3 BLOB CHECK (length(blake3) = 32),       -- BLAKE3 of the whole file; null unless configured
    crc64nvme BLOB CHECK (length(crc64nvme) = 8),  -- CRC-64/NVME of the whole file; null if older than it, or not computed
    block_size_bytes INTEGER,                      -- size of its blocks; null: it fits one block, or they are not kept
    recorded_at INTEGER NOT NULL,                  -- when it was taken; of a candidate: start of the run that saw it
    reason TEXT,                                   -- BaselineReason: why it was taken; of a candidate: with which it may be, if judging gave one
    read_how TEXT,                                 -- ReadHow of a candidate; null for removals, and for times that are not taken over
    verdict TEXT,                                  -- what judging said of a candidate; gone: the file; intact: the recorded content under another time
    run_id INTEGER REFERENCES run (id),            -- run that saw a candidate
    replaced_at INTEGER,                           -- when a former one was replaced or removed
    replaced_because TEXT,                         -- BaselineReason: why it was replaced or removed
    note TEXT                                      -- what a person said
) STRICT;
CREATE UNIQUE INDEX version_candidate ON version (file_id) WHERE state <> 'former';
CREATE INDEX version_deleted ON version (root_id, size_bytes, md5) WHERE replaced_because = 'deleted';
CREATE INDEX version_deleted_time ON version (root_id, size_bytes, mtime_ns) WHERE replaced_because = 'deleted';
CREATE INDEX version_file ON version (file_id) WHERE state = 'former';
CREATE INDEX version_inode ON version (inode) WHERE state = 'former';
CREATE INDEX version_path ON version (root_id, path) WHERE state = 'former';
CREATE INDEX version_replaced ON version (root_id, replaced_at) WHERE state = 'former';
CREATE INDEX version_run ON version (run_id) WHERE run_id NOT NULL;

CREATE TRIGGER file_added AFTER INSERT ON file WHEN (SELECT fingerprint FROM folder WHERE id = NEW.folder_id) IS NOT NULL BEGIN UPDATE folder SET fingerprint = NULL WHERE id = NEW.folder_id; END;
CREATE TRIGGER file_removed AFTER DELETE ON file WHEN (SELECT fingerprint FROM folder WHERE id = OLD.folder_id) IS NOT NULL BEGIN UPDATE folder SET fingerprint = NULL WHERE id = OLD.folder_id; END;
CREATE TRIGGER file_changed AFTER UPDATE OF folder_id, name, size_bytes, mtime_ns, ctime_ns, inode, is_racy, is_frozen ON file BEGIN UPDATE folder SET fingerprint = NULL WHERE id IN (OLD.folder_id, NEW.folder_id) AND fingerprint IS NOT NULL; END;
CREATE TRIGGER finding_opened_reported AFTER INSERT ON finding WHEN EXISTS (SELECT 1 FROM report_state) BEGIN INSERT INTO report_change (kind, item_id) SELECT 'finding', NEW.id WHERE NOT EXISTS (SELECT 1 FROM report_change WHERE kind = 'finding' AND item_id = NEW.id); END;
CREATE TRIGGER finding_changed_reported AFTER UPDATE OF kind, path, certainty, state, resolved_at, muted_until, blocks, ranges, message, copy, step, command, incident ON finding WHEN EXISTS (SELECT 1 FROM report_state) AND (OLD.kind IS NOT NEW.kind OR OLD.path IS NOT NEW.path OR OLD.certainty IS NOT NEW.certainty OR OLD.state IS NOT NEW.state OR OLD.resolved_at IS NOT NEW.resolved_at OR OLD.muted_until IS NOT NEW.muted_until OR OLD.blocks IS NOT NEW.blocks OR OLD.ranges IS NOT NEW.ranges OR OLD.message IS NOT NEW.message OR OLD.copy IS NOT NEW.copy OR OLD.step IS NOT NEW.step OR OLD.command IS NOT NEW.command OR OLD.incident IS NOT NEW.incident) BEGIN INSERT INTO report_change (kind, item_id) SELECT 'finding', NEW.id WHERE NOT EXISTS (SELECT 1 FROM report_change WHERE kind = 'finding' AND item_id = NEW.id); END;
CREATE TRIGGER finding_gone_reported AFTER DELETE ON finding WHEN EXISTS (SELECT 1 FROM report_state) BEGIN INSERT INTO report_change (kind, item_id) SELECT 'finding', OLD.id WHERE NOT EXISTS (SELECT 1 FROM report_change WHERE kind = 'finding' AND item_id = OLD.id); END;
CREATE TRIGGER run_reported AFTER UPDATE OF outcome ON run WHEN EXISTS (SELECT 1 FROM report_state) AND OLD.outcome IS NULL AND NEW.outcome IS NOT NULL BEGIN INSERT INTO report_change (kind, item_id) SELECT 'run', NEW.id WHERE NOT EXISTS (SELECT 1 FROM report_change WHERE kind = 'run' AND item_id = NEW.id); DELETE FROM report_change WHERE kind = 'run' AND item_id <= NEW.id - 10000; END;
CREATE TRIGGER action_reported AFTER INSERT ON action WHEN EXISTS (SELECT 1 FROM report_state) BEGIN INSERT INTO report_change (kind, item_id) SELECT 'action', NEW.id WHERE NOT EXISTS (SELECT 1 FROM report_change WHERE kind = 'action' AND item_id = NEW.id); END;
CREATE TRIGGER file_added_reported AFTER INSERT ON file BEGIN DELETE FROM report_folder WHERE folder_id = NEW.folder_id; END;
CREATE TRIGGER file_removed_reported AFTER DELETE ON file BEGIN DELETE FROM report_folder WHERE folder_id = OLD.folder_id; END;
CREATE TRIGGER file_changed_reported AFTER UPDATE OF folder_id, name, size_bytes, mtime_ns, md5, xxh3_128, recorded_at, verified_at, read_how, is_suspect, is_frozen ON file BEGIN DELETE FROM report_folder WHERE folder_id IN (OLD.folder_id, NEW.folder_id); END;

-- Programs up to 1.0 look here, and say that a newer one was here.
CREATE TABLE alembic_version (version_num TEXT NOT NULL PRIMARY KEY) STRICT;

-- What each table that people are told from should hold: a page that a disk never wrote is an old page with a right
-- checksum, and changes nothing here. The number of a row changes with all that is told of it.
CREATE TABLE tally (
    name TEXT PRIMARY KEY NOT NULL, -- name of the table
    rows INTEGER NOT NULL,          -- how many it should have
    sum INTEGER NOT NULL            -- of the numbers of all rows
) STRICT, WITHOUT ROWID;
INSERT INTO tally (name, rows, sum) VALUES ('file', 0, 0), ('version', 0, 0), ('finding', 0, 0), ('copy_file', 0, 0);
CREATE TRIGGER file_tallied AFTER INSERT ON file BEGIN UPDATE tally SET rows = rows + 1, sum = sum + (NEW.id + 3 * NEW.folder_id + 5 * NEW.size_bytes + 7 * (NEW.mtime_ns % 1000003) + 11 * NEW.version + 13 * NEW.recorded_at + 17 * coalesce(NEW.verified_at, 0) + 19 * NEW.is_suspect + 23 * NEW.is_frozen) % 1000003 WHERE name = 'file'; END;
CREATE TRIGGER file_untallied AFTER DELETE ON file BEGIN UPDATE tally SET rows = rows - 1, sum = sum - (OLD.id + 3 * OLD.folder_id + 5 * OLD.size_bytes + 7 * (OLD.mtime_ns % 1000003) + 11 * OLD.version + 13 * OLD.recorded_at + 17 * coalesce(OLD.verified_at, 0) + 19 * OLD.is_suspect + 23 * OLD.is_frozen) % 1000003 WHERE name = 'file'; END;
CREATE TRIGGER file_retallied AFTER UPDATE OF folder_id, id, is_frozen, is_suspect, mtime_ns, recorded_at, size_bytes, verified_at, version ON file BEGIN UPDATE tally SET sum = sum - (OLD.id + 3 * OLD.folder_id + 5 * OLD.size_bytes + 7 * (OLD.mtime_ns % 1000003) + 11 * OLD.version + 13 * OLD.recorded_at + 17 * coalesce(OLD.verified_at, 0) + 19 * OLD.is_suspect + 23 * OLD.is_frozen) % 1000003 + (NEW.id + 3 * NEW.folder_id + 5 * NEW.size_bytes + 7 * (NEW.mtime_ns % 1000003) + 11 * NEW.version + 13 * NEW.recorded_at + 17 * coalesce(NEW.verified_at, 0) + 19 * NEW.is_suspect + 23 * NEW.is_frozen) % 1000003 WHERE name = 'file'; END;
CREATE TRIGGER version_tallied AFTER INSERT ON version BEGIN UPDATE tally SET rows = rows + 1, sum = sum + (NEW.id + 3 * NEW.file_id + 5 * coalesce(NEW.size_bytes, 0) + 7 * NEW.number + 11 * length(NEW.state) + 13 * coalesce(NEW.replaced_at, 0) + 17 * NEW.recorded_at) % 1000003 WHERE name = 'version'; END;
CREATE TRIGGER version_untallied AFTER DELETE ON version BEGIN UPDATE tally SET rows = rows - 1, sum = sum - (OLD.id + 3 * OLD.file_id + 5 * coalesce(OLD.size_bytes, 0) + 7 * OLD.number + 11 * length(OLD.state) + 13 * coalesce(OLD.replaced_at, 0) + 17 * OLD.recorded_at) % 1000003 WHERE name = 'version'; END;
CREATE TRIGGER version_retallied AFTER UPDATE OF file_id, id, number, recorded_at, replaced_at, size_bytes, state ON version BEGIN UPDATE tally SET sum = sum - (OLD.id + 3 * OLD.file_id + 5 * coalesce(OLD.size_bytes, 0) + 7 * OLD.number + 11 * length(OLD.state) + 13 * coalesce(OLD.replaced_at, 0) + 17 * OLD.recorded_at) % 1000003 + (NEW.id + 3 * NEW.file_id + 5 * coalesce(NEW.size_bytes, 0) + 7 * NEW.number + 11 * length(NEW.state) + 13 * coalesce(NEW.replaced_at, 0) + 17 * NEW.recorded_at) % 1000003 WHERE name = 'version'; END;
CREATE TRIGGER finding_tallied AFTER INSERT ON finding BEGIN UPDATE tally SET rows = rows + 1, sum = sum + (NEW.id + 3 * coalesce(NEW.file_id, 0) + 5 * NEW.updated_at + 7 * length(NEW.state) + 11 * NEW.confirmed_reads) % 1000003 WHERE name = 'finding'; END;
CREATE TRIGGER finding_untallied AFTER DELETE ON finding BEGIN UPDATE tally SET rows = rows - 1, sum = sum - (OLD.id + 3 * coalesce(OLD.file_id, 0) + 5 * OLD.updated_at + 7 * length(OLD.state) + 11 * OLD.confirmed_reads) % 1000003 WHERE name = 'finding'; END;
CREATE TRIGGER finding_retallied AFTER UPDATE OF confirmed_reads, file_id, id, state, updated_at ON finding BEGIN UPDATE tally SET sum = sum - (OLD.id + 3 * coalesce(OLD.file_id, 0) + 5 * OLD.updated_at + 7 * length(OLD.state) + 11 * OLD.confirmed_reads) % 1000003 + (NEW.id + 3 * coalesce(NEW.file_id, 0) + 5 * NEW.updated_at + 7 * length(NEW.state) + 11 * NEW.confirmed_reads) % 1000003 WHERE name = 'finding'; END;
CREATE TRIGGER copy_file_tallied AFTER INSERT ON copy_file BEGIN UPDATE tally SET rows = rows + 1, sum = sum + (NEW.copy_id + 3 * NEW.file_id + 5 * NEW.version + 7 * NEW.compared_at + 11 * coalesce(NEW.read_at, 0) + 13 * length(NEW.vote)) % 1000003 WHERE name = 'copy_file'; END;
CREATE TRIGGER copy_file_untallied AFTER DELETE ON copy_file BEGIN UPDATE tally SET rows = rows - 1, sum = sum - (OLD.copy_id + 3 * OLD.file_id + 5 * OLD.version + 7 * OLD.compared_at + 11 * coalesce(OLD.read_at, 0) + 13 * length(OLD.vote)) % 1000003 WHERE name = 'copy_file'; END;
CREATE TRIGGER copy_file_retallied AFTER UPDATE OF compared_at, copy_id, file_id, read_at, version, vote ON copy_file BEGIN UPDATE tally SET sum = sum - (OLD.copy_id + 3 * OLD.file_id + 5 * OLD.version + 7 * OLD.compared_at + 11 * coalesce(OLD.read_at, 0) + 13 * length(OLD.vote)) % 1000003 + (NEW.copy_id + 3 * NEW.file_id + 5 * NEW.version + 7 * NEW.compared_at + 11 * coalesce(NEW.read_at, 0) + 13 * length(NEW.vote)) % 1000003 WHERE name = 'copy_file'; END;
