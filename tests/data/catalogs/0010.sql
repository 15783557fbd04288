-- A catalog of schema 0010, written by that version of integrity; rows with wrong seals: 4.
PRAGMA application_id = 1768846439;
BEGIN TRANSACTION;
CREATE TABLE action (
	id INTEGER NOT NULL, 
	at INTEGER NOT NULL, 
	who TEXT NOT NULL, 
	address TEXT NOT NULL, 
	verb TEXT NOT NULL, 
	root BLOB, 
	path BLOB, 
	findings TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	outcome TEXT NOT NULL, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((id + at) % 127) STORED, 
	PRIMARY KEY (id)
)
 STRICT

;
INSERT INTO "action" VALUES(1,1795761062,'root (uid 0)','command line','accept',X'2F7372762F6E61732F70686F746F73',X'323032302F6564697465642E747874','[]','mine','its present content is the baseline',X'A6F64F3E586D507F42C21B60E74A1C07');
INSERT INTO "action" VALUES(2,1795761063,'root (uid 0)','command line','mute',X'2F7372762F6E61732F70686F746F73',X'323031392F74776F2E6A7067','[1]','','muted until 2031-01-01 00:00 UTC',X'EBA64DB86BCC7362B7F57747DC78ACCD');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0010');
CREATE TABLE alert (
	id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	message_id TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	body TEXT NOT NULL, 
	html TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	incidents TEXT NOT NULL, 
	created_at INTEGER NOT NULL, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((id + created_at) % 127) STORED, 
	PRIMARY KEY (id), 
	UNIQUE (message_id)
)
 STRICT

;
INSERT INTO "alert" VALUES(1,'incident','message_id of alert','subject of alert','body of alert','html of alert','{}','1',1763700000,X'1C8DCDFC7F7006F44DC35279484072C8');
CREATE TABLE block_run (
	file_id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	run INTEGER NOT NULL, 
	block_count INTEGER NOT NULL, 
	md5 BLOB NOT NULL, 
	xxh3_128 BLOB NOT NULL, 
	seal BLOB NOT NULL CHECK (length(seal) = 16), 
	crc64nvme BLOB DEFAULT (x'') NOT NULL, 
	PRIMARY KEY (file_id, version, run)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "block_run" VALUES(1,1,0,5,X'B257D7DC86FFB7BA582897A89381B1A51994468F6AABF777CE2A86618AE97F126333933B0C88B9E54B0576E5C771F057416B9DB983CC931AB7A233C0D671668321D06DBBAE762DD5DBDA72B1B2D0A785',X'0973CE0EC92A2B95DA8B794F838A1DDCF9F832D3B38160E238B9B266B86EB7289DDEB250943DBDD1695554DB18C219E4682AD4CD792534C9F1AFA919FC56BC92DAF9E09952F974468B78E4C8AD5B0091',X'542A50F05A4145D04D9274B390E41FE2',X'11F5C7ADF34002CA03CDAC800CF714DC3D285A02A8C573C4713B16A2457E188A85046845C3ACDF81');
INSERT INTO "block_run" VALUES(2,1,0,8,X'598BF98D5C865461AEF3EAA8D95A0FD92F310658B33EC2190F663A4CEF22AD31FCD6BCB56C1689FCEF28B57C22475BADFCD6BCB56C1689FCEF28B57C22475BADFCD6BCB56C1689FCEF28B57C22475BADFCD6BCB56C1689FCEF28B57C22475BADFCD6BCB56C1689FCEF28B57C22475BADA94B93AE7758767AD73627FA054B9C7A',X'0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000',X'A6662BBCDDF222F4F03FD4CFBE0B1AB4',X'8BD3F06353EFF8281C9536EC86967ED056441F54F873A6C856441F54F873A6C856441F54F873A6C856441F54F873A6C856441F54F873A6C89A2B9CE07F95C3D4');
CREATE TABLE boot (
	id INTEGER NOT NULL, 
	uuid TEXT NOT NULL, 
	fs_id TEXT NOT NULL, 
	mount TEXT NOT NULL, 
	mount_count INTEGER, 
	first_seen_at INTEGER NOT NULL, 
	stopped_cleanly_at INTEGER, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (id), 
	UNIQUE (uuid, fs_id, mount)
)
 STRICT

;
INSERT INTO "boot" VALUES(1,'5326b0f5-99b7-4add-b0b6-8a30428e10ce','','',NULL,1795761048,NULL,X'3F3939C50A3F6C9DF3EDBA740EEB4405');
INSERT INTO "boot" VALUES(2,'5326b0f5-99b7-4add-b0b6-8a30428e10ce','uuid:5ec71dc2-f7bb-4541-8ad0-90661935754f','/sys/fs/ext4/vda 18503',1,1795761048,NULL,X'456134AD15BF1B19DF90239EB51CE7A0');
CREATE TABLE candidate (
	file_id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	size_bytes INTEGER, 
	mtime_ns INTEGER, 
	ctime_ns INTEGER, 
	inode INTEGER, 
	is_racy INTEGER, 
	md5 BLOB CHECK (length(md5) = 16), 
	xxh3_128 BLOB CHECK (length(xxh3_128) = 16), 
	blake3 BLOB CHECK (length(blake3) = 32), 
	block_size_bytes INTEGER, 
	version INTEGER NOT NULL, 
	verdict TEXT NOT NULL, 
	because TEXT, 
	read_how TEXT, 
	seen_at INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	seal BLOB NOT NULL CHECK (length(seal) = 16), 
	crc64nvme BLOB CHECK (length(crc64nvme) = 8), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((file_id + coalesce(size_bytes, 0) + coalesce(mtime_ns, 0) + coalesce(ctime_ns, 0) + coalesce(inode, 0) + version + seen_at + run_id) % 127) STORED, 
	PRIMARY KEY (file_id), 
	FOREIGN KEY(file_id) REFERENCES file (id), 
	FOREIGN KEY(run_id) REFERENCES run (id)
)
 STRICT

;
INSERT INTO "candidate" VALUES(10,'change',2100,1795674846000000000,1795761063980230272,761903,0,X'211A7012DD71558638D49D23609E05F6',X'A093B46BCE2693F741D7D355B724F1DD',NULL,NULL,0,'changed','edited','cache_possible',1795761064,8,'frozen',X'32AE28C70D12E29ABF092CD07ADE208F',X'5B0902A4F0724698');
CREATE TABLE channel (
	name TEXT NOT NULL, 
	first_seen_at INTEGER NOT NULL, 
	good_at INTEGER, 
	failing_since INTEGER, 
	failed_at INTEGER, 
	is_permanent INTEGER NOT NULL, 
	last_error TEXT, 
	told_at INTEGER, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (name)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "channel" VALUES('name of channel',1763700000,1763700000,1763700000,1763700000,1,'last_error of channel',1763700000,X'FFEDF0EA0B929F6AEC6D508A3D4EDA63');
CREATE TABLE checkpoint (
	id INTEGER NOT NULL, 
	root_id INTEGER NOT NULL, 
	path BLOB NOT NULL, 
	purpose TEXT NOT NULL, 
	size_bytes INTEGER NOT NULL, 
	mtime_ns INTEGER NOT NULL, 
	ctime_ns INTEGER NOT NULL, 
	inode INTEGER NOT NULL, 
	is_racy INTEGER NOT NULL, 
	offset_bytes INTEGER NOT NULL, 
	md5_state BLOB, 
	bad_blocks TEXT NOT NULL, 
	block_size_bytes INTEGER NOT NULL, 
	saved_at INTEGER NOT NULL, 
	seal BLOB NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (id), 
	UNIQUE (root_id, path, purpose), 
	FOREIGN KEY(root_id) REFERENCES root (id)
)
 STRICT

;
INSERT INTO "checkpoint" VALUES(1,1,X'70617468','verify',1,1763700000000000007,1763700000000000007,1,1,1,X'6D64355F7374617465','[]',1,1763700000,X'06F02A3953B67A171F3AD88F586C0C63');
CREATE TABLE checkpoint_run (
	checkpoint_id INTEGER NOT NULL, 
	run INTEGER NOT NULL, 
	block_count INTEGER NOT NULL, 
	md5 BLOB NOT NULL, 
	xxh3_128 BLOB NOT NULL, 
	seal BLOB NOT NULL CHECK (length(seal) = 16), 
	crc64nvme BLOB DEFAULT (x'') NOT NULL, 
	PRIMARY KEY (checkpoint_id, run), 
	FOREIGN KEY(checkpoint_id) REFERENCES checkpoint (id)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "checkpoint_run" VALUES(1,1,1,X'6D6435',X'787868335F313238',X'00000000000000000000000000000000',X'63726336346E766D65');
CREATE TABLE configured_root (
	root_id INTEGER NOT NULL, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (root_id), 
	FOREIGN KEY(root_id) REFERENCES root (id)
)
 STRICT

;
INSERT INTO "configured_root" VALUES(1,X'68059536C08487397C0B8FE69143773D');
CREATE TABLE copy (
	id INTEGER NOT NULL, 
	root_id INTEGER NOT NULL, 
	prefix BLOB NOT NULL, 
	name TEXT NOT NULL, 
	url TEXT NOT NULL, 
	identity TEXT, 
	has_bytes INTEGER NOT NULL, 
	created_at INTEGER NOT NULL, 
	listed_at INTEGER, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (id), 
	UNIQUE (root_id, prefix, name), 
	FOREIGN KEY(root_id) REFERENCES root (id)
)
 STRICT

;
INSERT INTO "copy" VALUES(1,1,X'','/srv/nas/backup','/srv/nas/backup','uuid:5ec71dc2-f7bb-4541-8ad0-90661935754f 762093',1,1795761049,1795761050,X'EF5E81445B3172911BA311DE341B6461');
CREATE TABLE copy_file (
	copy_id INTEGER NOT NULL, 
	file_id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	vote TEXT NOT NULL, 
	compared_at INTEGER NOT NULL, 
	read_at INTEGER, 
	stated BLOB CHECK (length(stated) = 16), 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((copy_id + file_id + version + compared_at + coalesce(read_at, 0)) % 127) STORED, 
	PRIMARY KEY (copy_id, file_id), 
	FOREIGN KEY(copy_id) REFERENCES copy (id)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "copy_file" VALUES(1,1,1,'differs',1795761049,1795761049,NULL,X'880676CFF55683FE67AF1B781A43045A');
INSERT INTO "copy_file" VALUES(1,2,1,'same',1795761049,1795761049,NULL,X'B099CEC48C084AA154756A42369D783E');
INSERT INTO "copy_file" VALUES(1,3,1,'same',1795761049,1795761049,NULL,X'5ABABF707919E8FAD3338B6123A742FF');
INSERT INTO "copy_file" VALUES(1,4,1,'differs',1795761049,1795761049,NULL,X'835A1744BDF014ADB37FFE62A2116E33');
INSERT INTO "copy_file" VALUES(1,5,1,'same',1795761049,1795761049,NULL,X'E9AF1249F5E43205DDA118D06AB81F04');
INSERT INTO "copy_file" VALUES(1,6,1,'same',1795761049,1795761049,NULL,X'49C86D634D7BB2706212BAA671514B4A');
INSERT INTO "copy_file" VALUES(1,7,1,'same',1795761049,1795761049,NULL,X'33BEF13E6F1702F288CB86AAA826BB65');
INSERT INTO "copy_file" VALUES(1,8,1,'same',1795761049,1795761049,NULL,X'467A77EB878AEF2E9D534B31625D78C5');
INSERT INTO "copy_file" VALUES(1,9,1,'same',1795761049,1795761049,NULL,X'03D7308EA1DA6BDC91662F8362BAFA04');
INSERT INTO "copy_file" VALUES(1,10,1,'same',1795761049,1795761049,NULL,X'F6B673747602C59E00FB814F81294264');
INSERT INTO "copy_file" VALUES(1,11,1,'same',1795761049,1795761049,NULL,X'3E9D216869AEA5B3C179835D5AE3B001');
CREATE TABLE copy_reading (
	copy_id INTEGER NOT NULL, 
	file_id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	size_bytes INTEGER NOT NULL, 
	mtime_ns INTEGER NOT NULL, 
	ctime_ns INTEGER NOT NULL, 
	inode INTEGER NOT NULL, 
	is_racy INTEGER NOT NULL, 
	offset_bytes INTEGER NOT NULL, 
	bad_blocks TEXT NOT NULL, 
	seal BLOB NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (copy_id, file_id), 
	FOREIGN KEY(copy_id) REFERENCES copy (id)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "copy_reading" VALUES(1,1,1,1,1763700000000000007,1763700000000000007,1,1,1,'[]',X'83284F335813AEF6902B475BEA20A2D7');
CREATE TABLE delivery (
	alert_id INTEGER NOT NULL, 
	channel TEXT NOT NULL, 
	attempts INTEGER NOT NULL, 
	next_try_at INTEGER NOT NULL, 
	sent_at INTEGER, 
	last_error TEXT, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((alert_id + attempts + next_try_at + coalesce(sent_at, 0)) % 127) STORED, 
	PRIMARY KEY (alert_id, channel), 
	FOREIGN KEY(alert_id) REFERENCES alert (id)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "delivery" VALUES(1,'channel of delivery',1,1763700000,1763700000,'last_error of delivery',X'67203773F575874BDF97FFDCAB11B3CD');
CREATE TABLE file (
	id INTEGER NOT NULL, 
	folder_id INTEGER NOT NULL, 
	name BLOB NOT NULL, 
	size_bytes INTEGER NOT NULL, 
	mtime_ns INTEGER NOT NULL, 
	ctime_ns INTEGER NOT NULL, 
	inode INTEGER NOT NULL, 
	is_racy INTEGER NOT NULL, 
	md5 BLOB CHECK (length(md5) = 16), 
	xxh3_128 BLOB CHECK (length(xxh3_128) = 16), 
	blake3 BLOB CHECK (length(blake3) = 32), 
	block_size_bytes INTEGER, 
	version INTEGER NOT NULL, 
	recorded_at INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	verified_at INTEGER, 
	read_how TEXT, 
	boot_id INTEGER, 
	is_suspect INTEGER NOT NULL, 
	is_frozen INTEGER NOT NULL, 
	seal BLOB NOT NULL CHECK (length(seal) = 16), 
	crc64nvme BLOB CHECK (length(crc64nvme) = 8), 
	state_seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(state_seal) = 16), 
	seen_inode INTEGER, 
	seen_ctime_ns INTEGER, 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((id + folder_id + size_bytes + version + recorded_at + coalesce(verified_at, 0) + is_suspect + is_frozen) % 127) STORED, 
	PRIMARY KEY (id), 
	UNIQUE (folder_id, name), 
	FOREIGN KEY(folder_id) REFERENCES folder (id), 
	FOREIGN KEY(boot_id) REFERENCES boot (id)
)
 STRICT

;
INSERT INTO "file" VALUES(1,1,X'6C617267652E726177',300000,1795674646000000000,1795761046811120018,761883,0,X'B16E2CC293127A0ADD084C2BDAF0B5DC',X'757591FBCC6ECB7B7B4F81E9AAAB03CE',NULL,65536,1,1795761048,'recorded',1795761056,'direct',2,0,0,X'D7258766FC94EA3771CA37CD4BE02B83',X'8947112024794CF2',X'18506F0FD28E668CABB0EB7BA33E59F2',NULL,NULL);
INSERT INTO "file" VALUES(2,2,X'686F6C6573',470000,1795674646000000000,1795761046813520489,761911,0,X'CD99C183E845A420B56B37137FC1A346',X'4D6B95F5159F40B554E4821766686DC7',NULL,65536,1,1795761048,'recorded',1795761056,'direct',2,0,0,X'A0B6D0C774BFC3C74DBFC829ED5483C3',X'703C31981649BCCC',X'B8995DC8E8BD7BC036F36699036C02ED',NULL,NULL);
INSERT INTO "file" VALUES(3,3,X'6F6E652E6A7067',900,1795674646000000000,1795761046809999211,761881,0,X'2A1DFC4B4591E453E24EEE334F994B9C',X'3F32AEFE62C9DE35222E3E5B4B389CB8',NULL,NULL,1,1795761048,'recorded',1795761056,'direct',2,0,0,X'FE150F06B9918AB8B7EA8529C0E56354',X'3E48564F7E66B6B8',X'A1770B9BAEAE628997DFE75DC09EC022',NULL,NULL);
INSERT INTO "file" VALUES(4,3,X'74776F2E6A7067',1200,1795674646000000000,1795761046810061514,761882,0,X'2B0B3C19A1CA04E3BC32A3DC9E425522',X'55602044E5AB18355BD92B68BFF39AC5',NULL,NULL,1,1795761048,'recorded',1795761056,'direct',2,0,0,X'9E1C101480531A3B64DCB990027F97F3',X'BC09DB0A7EDEAE80',X'CA50A8A3F4FCE4CD73B897EDCDF2F95F',NULL,NULL);
INSERT INTO "file" VALUES(6,2,X'6564697465642E747874',6,1795674746000000000,1795761051655655073,761900,0,X'A9F0E61A137D86AA9DB53465E0801612',X'885B08846244FEB4E13DCB4BE2A53071',NULL,NULL,3,1795761062,'accepted',NULL,'direct',2,0,0,X'092BD11D5DB15EA683556F0444414EDC',X'0AF9C9E1F216A73E',X'BA13D3BCA1E381F16599E26119E5B93A',NULL,NULL);
INSERT INTO "file" VALUES(7,2,X'656D707479',0,1795674646000000000,1795761046811266987,761893,0,X'D41D8CD98F00B204E9800998ECF8427E',X'99AA06D3014798D86001C324468D497F',NULL,NULL,1,1795761048,'recorded',1795761056,'direct',2,0,0,X'D90D2569718293466BE2832C63F433D3',X'0000000000000000',X'A3BE39B467EC47DB5024A006BA8A02F8',NULL,NULL);
INSERT INTO "file" VALUES(8,3,X'6D6F7665642E747874',11,1795674646000000000,1795761051656583528,761902,0,X'816DE0CFEE14A53902CDFD8E0183D025',X'C20815E02A5B714A05C123F5BE480747',NULL,NULL,1,1795761048,'recorded',1795761056,'direct',2,0,0,X'006514C3AA896B1298DE5007DABABD61',X'12C9837BE0B086ED',X'E9D5C783E60A54A5B4678B52FEF329F8',NULL,NULL);
INSERT INTO "file" VALUES(9,2,X'6F6464FF0A206E616D65',3,1795674646000000000,1795761046811322419,761899,0,X'A2B6F2A6066ED8700D83335FC50A2B8E',X'4E053B70C5BC2C3A3374938AA86B6DAC',NULL,NULL,1,1795761048,'recorded',1795761056,'direct',2,0,0,X'75FC134F7CE4E4975D4319F447678EFD',X'1CC2C8CDDAA22997',X'E631891E337069E8D81B54765B67E0E2',NULL,NULL);
INSERT INTO "file" VALUES(10,2,X'726F7474656E2E6A7067',2000,1795674646000000000,1795761046811457831,761903,0,X'5765788DFAC3CD815FD7DB18B7F2A58A',X'A7B3DE0364C232653B99680CA642926F',NULL,NULL,1,1795761048,'recorded',1795761055,'direct',2,1,1,X'707F424F08364D3199186A2AE5405A8D',X'B34EF8E0DEE72A54',X'BA2145528963CB609462CDB45EB219C6',761903,1795761055396149378);
INSERT INTO "file" VALUES(11,2,X'73616D652E6A7067',500,1795674646000000000,1795761046811493484,761904,0,X'00000000000000000000000000000000',X'F0A5E7E1517BE8E9AA19D3FDE2895ABE',NULL,NULL,1,1795761048,'recorded',1795761056,'direct',2,0,0,X'82C4C1CB3B7B6DE2A46EBED6E81E6CFD',X'A08A90CD9E24500B',X'B41C47C604861C17B161B56A735E700E',NULL,NULL);
INSERT INTO "file" VALUES(12,2,X'6E65772E747874',3,1795674646000000000,1795761051660313843,761901,0,X'22AF645D1859CB5CA6DA0C484F1F37EA',X'4268207A5959016D4DB73088ACE631B8',NULL,NULL,1,1795761053,'recorded',1795761056,'direct',2,0,0,X'CD7AB26381CA52538817BA76E98F12A0',X'9D89C1CC3FBF3A4A',X'1DA66D6A052102F315A64F26BF17839A',NULL,NULL);
CREATE TABLE finding (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	root_id INTEGER NOT NULL, 
	file_id INTEGER, 
	path BLOB NOT NULL, 
	kind TEXT NOT NULL, 
	certainty TEXT, 
	state TEXT NOT NULL, 
	opened_at INTEGER NOT NULL, 
	updated_at INTEGER NOT NULL, 
	resolved_at INTEGER, 
	resolution TEXT, 
	muted_until INTEGER, 
	blocks TEXT NOT NULL, 
	block_size_bytes INTEGER, 
	ranges TEXT NOT NULL, 
	confirmed_reads INTEGER NOT NULL, 
	message TEXT NOT NULL, 
	run_id INTEGER, 
	copy TEXT DEFAULT '' NOT NULL, 
	step TEXT, 
	command TEXT, 
	opened_by INTEGER, 
	incident INTEGER, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	FOREIGN KEY(root_id) REFERENCES root (id), 
	FOREIGN KEY(run_id) REFERENCES run (id)
)
 STRICT

;
INSERT INTO "finding" VALUES(1,1,4,X'323031392F74776F2E6A7067','copy_differs',NULL,'muted',1795761049,1795761049,NULL,NULL,1924992000,'[]',NULL,'[]',0,'The backup in /srv/nas/backup is damaged (its data was read back); your original is intact (just read from its disk).',3,'/srv/nas/backup','copy this one file over the damaged backup (plain rsync skips it: use --checksum), then compare','integrity compare /srv/nas/photos/2019/two.jpg --with /srv/nas/backup',3,NULL,X'0613E9BF57383A75AF9F1A017F763CC5');
INSERT INTO "finding" VALUES(2,1,10,X'323032302F726F7474656E2E6A7067','silent_rewrite','ctime_moved','open',1795761060,1795761060,NULL,NULL,NULL,'[0]',65536,'[[0, 2000]]',2,'The content changed, but the modification time did not. Either the file is damaged, or a program rewrote it and restored the old time.',7,'','restore the damaged part from the copy','integrity repair /srv/nas/photos/2020/rotten.jpg --from /srv/nas/backup',7,NULL,X'0C0A733C928A280F28D38AFE3DAACD71');
CREATE TABLE folder (
	id INTEGER NOT NULL, 
	root_id INTEGER NOT NULL, 
	path BLOB NOT NULL, 
	fingerprint BLOB, 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((id + root_id) % 127) STORED, 
	PRIMARY KEY (id), 
	UNIQUE (root_id, path), 
	FOREIGN KEY(root_id) REFERENCES root (id)
)
 STRICT

;
INSERT INTO "folder" VALUES(1,1,X'323032302F726177',X'B74EB31D335A873A1DAEF4A626DD9278');
INSERT INTO "folder" VALUES(2,1,X'32303230',NULL);
INSERT INTO "folder" VALUES(3,1,X'32303139',X'14DF7210F164417B58DE9ADB80DE846B');
CREATE TABLE gate (
	root_id INTEGER NOT NULL, 
	prefix BLOB NOT NULL, 
	passed_at INTEGER NOT NULL, 
	last_history_id INTEGER NOT NULL, 
	last_file_id INTEGER NOT NULL, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (root_id, prefix), 
	FOREIGN KEY(root_id) REFERENCES root (id)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "gate" VALUES(1,X'707265666978',1763700000,1,1,X'F6EE53252865D15FD31A6AD6923DB325');
CREATE TABLE history (
	id INTEGER NOT NULL, 
	root_id INTEGER NOT NULL, 
	file_id INTEGER, 
	path BLOB NOT NULL, 
	size_bytes INTEGER NOT NULL, 
	mtime_ns INTEGER NOT NULL, 
	md5 BLOB CHECK (length(md5) = 16), 
	xxh3_128 BLOB CHECK (length(xxh3_128) = 16), 
	blake3 BLOB CHECK (length(blake3) = 32), 
	version INTEGER NOT NULL, 
	recorded_at INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	replaced_at INTEGER NOT NULL, 
	replaced_because TEXT NOT NULL, 
	note TEXT, 
	crc64nvme BLOB CHECK (length(crc64nvme) = 8), 
	block_size_bytes INTEGER, 
	is_racy INTEGER, 
	ctime_ns INTEGER, 
	inode INTEGER, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((id + root_id + coalesce(file_id, 0) + size_bytes + mtime_ns + version + recorded_at + replaced_at + coalesce(inode, 0)) % 127) STORED, 
	PRIMARY KEY (id), 
	FOREIGN KEY(root_id) REFERENCES root (id)
)
 STRICT

;
INSERT INTO "history" VALUES(1,1,5,X'323032302F64656C657465642E747874',10,1795674646000000000,X'4D99A4382032E4BB38D0370083EC1FB2',X'DAA98B38E6D1084F8A836A923BB9916A',NULL,1,1795761048,'recorded',1795761053,'deleted','never said',X'E37C2F5661B930F8',NULL,0,1795761046811387987,761901,X'3B8B82AD94C8E6A1D78AFDFB0A57516A');
INSERT INTO "history" VALUES(2,1,6,X'323032302F6564697465642E747874',5,1795674646000000000,X'8B04D5E3775D298E78455EFC5CA404D5',X'C9CBC8166703D7B011D9552B2B5188A5',NULL,1,1795761048,'recorded',1795761053,'edited',NULL,X'C04D5D98CBC41031',NULL,0,1795761046811355959,761900,X'B0FA8FC5A70E66540DD02B8D90ECAF8D');
INSERT INTO "history" VALUES(3,1,6,X'323032302F6564697465642E747874',6,1795674746000000000,X'A9F0E61A137D86AA9DB53465E0801612',X'885B08846244FEB4E13DCB4BE2A53071',NULL,2,1795761053,'edited',1795761062,'accepted','mine',X'0AF9C9E1F216A73E',NULL,0,1795761051655655073,761900,X'87B942537CC0B225040F8E798A5E72A6');
CREATE TABLE meta (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY ("key")
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "meta" VALUES('created_at','1795761047',X'9D26D90CB81928B88D04362FA22A8AA3');
INSERT INTO "meta" VALUES('last_backup_at','1795761048',X'EC06AB644E7478CF8EC3B61432A0C028');
INSERT INTO "meta" VALUES('next_file_id','13',X'E033322B538767EF4A3D6165669D86D8');
INSERT INTO "meta" VALUES('seal_check','ddd443c59b135b4d779d77cdea9b3a7c',X'96D3518DD6DA0EA52760FF731BBD4624');
INSERT INTO "meta" VALUES('uuid','933948fc-c6a6-4137-9d81-b6881b5b6ee6',X'7AB9D01B7E9FC495263C4C77BEB94D5E');
CREATE TABLE nested_mount (
	root_id INTEGER NOT NULL, 
	path BLOB NOT NULL, 
	identity TEXT NOT NULL, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (root_id, path), 
	FOREIGN KEY(root_id) REFERENCES root (id)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "nested_mount" VALUES(1,X'70617468','identity of nested_mount',X'B1FAB1A40D816DE3B8561AAEB428A2B3');
CREATE TABLE report_change (
	id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	item_id INTEGER NOT NULL, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((id + item_id) % 127) STORED, 
	PRIMARY KEY (id), 
	UNIQUE (kind, item_id)
)
 STRICT

;
INSERT INTO "report_change" VALUES(1,'finding',1,X'5E880DDC493101C9AD3D8C8AF73016DE');
CREATE TABLE report_folder (
	folder_id INTEGER NOT NULL, 
	own BLOB CHECK (length(own) = 16), 
	content BLOB CHECK (length(content) = 16), 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((folder_id) % 127) STORED, 
	PRIMARY KEY (folder_id), 
	FOREIGN KEY(folder_id) REFERENCES folder (id)
)
 STRICT

;
INSERT INTO "report_folder" VALUES(1,X'000102030405060708090A0B0C0D0E0F',X'000102030405060708090A0B0C0D0E0F',X'57D3DA0EA67B363283581C5515D30FB0');
CREATE TABLE report_message (
	number INTEGER NOT NULL, 
	at INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	item_id INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((number + at + item_id) % 127) STORED, 
	PRIMARY KEY (number)
)
 STRICT

;
INSERT INTO "report_message" VALUES(1,1763700000,'state',1,'body of report_message',X'10CD6141B78399A06F874CA363304AAE');
CREATE TABLE report_state (
	id INTEGER NOT NULL, 
	url TEXT NOT NULL, 
	stream BLOB NOT NULL CHECK (length(stream) = 16), 
	started_at INTEGER NOT NULL, 
	confirmed INTEGER NOT NULL, 
	chain BLOB NOT NULL CHECK (length(chain) = 16), 
	complete_at INTEGER, 
	failing_since INTEGER, 
	last_error TEXT, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((id + started_at + confirmed + coalesce(complete_at, 0) + coalesce(failing_since, 0)) % 127) STORED, 
	PRIMARY KEY (id)
)
 STRICT

;
INSERT INTO "report_state" VALUES(1,'url of report_state',X'000102030405060708090A0B0C0D0E0F',1763700000,1,X'000102030405060708090A0B0C0D0E0F',1763700000,1763700000,'last_error of report_state',X'E488A3D5CB060634F319CE75FDD6D152');
CREATE TABLE root (
	id INTEGER NOT NULL, 
	token BLOB NOT NULL CHECK (length(token) = 16), 
	path BLOB NOT NULL, 
	fs_id TEXT NOT NULL, 
	folder_inode INTEGER NOT NULL, 
	fs_type TEXT NOT NULL, 
	state TEXT NOT NULL, 
	state_reason TEXT, 
	created_at INTEGER NOT NULL, 
	file_count INTEGER NOT NULL, 
	seal_xor BLOB NOT NULL CHECK (length(seal_xor) = 16), 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (id), 
	UNIQUE (path)
)
 STRICT

;
INSERT INTO "root" VALUES(1,X'6FC3EB101CDA2D1E59455A5AD3851E67',X'2F7372762F6E61732F70686F746F73','uuid:5ec71dc2-f7bb-4541-8ad0-90661935754f',761870,'ext4','active',NULL,1795761048,11,X'8DE48AACF93089967708080C3A9736A4',X'DCE1E33ADDD9B4B1B3729189AF510307');
CREATE TABLE run (
	id INTEGER NOT NULL, 
	root_id INTEGER NOT NULL, 
	job TEXT NOT NULL, 
	started_at INTEGER NOT NULL, 
	finished_at INTEGER, 
	outcome TEXT, 
	boot_id INTEGER NOT NULL, 
	pid INTEGER NOT NULL, 
	verified INTEGER NOT NULL, 
	new INTEGER NOT NULL, 
	changed INTEGER NOT NULL, 
	damaged INTEGER NOT NULL, 
	missing INTEGER NOT NULL, 
	unreadable INTEGER NOT NULL, 
	unstable INTEGER NOT NULL, 
	skipped INTEGER NOT NULL, 
	not_due INTEGER NOT NULL, 
	moved INTEGER NOT NULL, 
	bytes_read INTEGER NOT NULL, 
	findings_opened INTEGER NOT NULL, 
	findings_open INTEGER NOT NULL, 
	duration_s REAL, 
	error TEXT, 
	copy TEXT, 
	last_file_id INTEGER, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((id + root_id + started_at + coalesce(finished_at, 0) + boot_id + pid + verified + new + changed + damaged + missing + unreadable + unstable + skipped + not_due + moved + bytes_read + findings_opened + findings_open + coalesce(last_file_id, 0)) % 127) STORED, 
	PRIMARY KEY (id), 
	FOREIGN KEY(root_id) REFERENCES root (id), 
	FOREIGN KEY(boot_id) REFERENCES boot (id)
)
 STRICT

;
INSERT INTO "run" VALUES(1,1,'scan',1795761048,1795761048,'clean',1,3470,0,11,0,0,0,0,0,0,0,0,774629,0,0,2.22756948998721782118e-01,NULL,NULL,11,X'918A974A0E877831E1E10B2DB0DC62C6');
INSERT INTO "run" VALUES(2,1,'scan',1795761049,1795761049,'clean',1,3532,0,0,0,0,0,0,0,0,11,0,0,0,0,8.23199709993787109851e-02,NULL,NULL,11,X'933C9D6ED306CE6F181B6F4C889B3353');
INSERT INTO "run" VALUES(3,1,'compare',1795761049,1795761050,'findings',1,3532,10,0,0,1,0,0,0,0,0,0,1550458,1,1,2.82888066998566500842e-01,NULL,'/srv/nas/backup',11,X'C89378DC3218D798B7F288A005A0E3A2');
INSERT INTO "run" VALUES(4,1,'scrub',1795761051,1795761051,'clean',1,3654,11,0,0,0,0,0,0,0,0,0,774629,0,1,1.49457636998704401776e-01,NULL,NULL,11,X'E1F90FC40DBB186E9E221BDC53A1024D');
INSERT INTO "run" VALUES(5,1,'scan',1795761053,1795761053,'clean',1,3863,0,1,1,0,1,0,0,0,9,1,9,0,1,0.319923186001688,NULL,NULL,12,X'BF6990BCB721A7223F59BA02FED6DE27');
INSERT INTO "run" VALUES(6,1,'scrub',1795761055,1795761055,'clean',1,4007,11,0,0,0,0,0,0,0,0,0,774623,0,1,2.43968774000677512958e-01,NULL,NULL,12,X'1CD7F0B3A27C4ECBD0DC648962C42D15');
INSERT INTO "run" VALUES(7,1,'scrub',1795761056,1795761060,'findings',1,4104,10,0,0,1,0,0,0,0,0,0,780623,1,2,4.32856345699838129803e+00,NULL,NULL,12,X'F9407C639B716ADD0A896080F42F5357');
INSERT INTO "run" VALUES(8,1,'scan',1795761064,1795761065,'clean',1,4757,0,0,0,1,0,0,0,0,10,0,2100,0,2,1.39422599000681657344e-01,NULL,NULL,12,X'B22DE79F4C92309D95189A4D9C85D007');
INSERT INTO "run" VALUES(9,1,'scan',1795761066,1795761066,'clean',1,4830,0,0,0,1,0,0,0,0,10,0,0,0,2,0.15283904700118,NULL,NULL,12,X'92EC2300C5B3ACDF6F1AF50165828256');
CREATE TABLE schedule_run (
	id INTEGER NOT NULL, 
	schedule TEXT NOT NULL, 
	root_id INTEGER, 
	due_at INTEGER, 
	started_at INTEGER NOT NULL, 
	finished_at INTEGER, 
	outcome TEXT, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	parity INTEGER NOT NULL GENERATED ALWAYS AS ((id + coalesce(root_id, 0) + coalesce(due_at, 0) + started_at + coalesce(finished_at, 0)) % 127) STORED, 
	PRIMARY KEY (id)
)
 STRICT

;
INSERT INTO "schedule_run" VALUES(1,'scan',1,1763700000,1763700000,1763700000,'outcome of schedule_run',X'66A1A1330CD70476BA4BF390C9583356');
CREATE TABLE told (
	finding_id INTEGER NOT NULL, 
	certainty TEXT, 
	blocks TEXT NOT NULL, 
	ranges TEXT NOT NULL, 
	first_told_at INTEGER NOT NULL, 
	swallowed_by INTEGER, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (finding_id)
)
 STRICT

;
INSERT INTO "told" VALUES(1,'proven','[]','[]',1763700000,1,X'4F260DF7C1EFF87DE6E6A658CED1B036');
CREATE INDEX schedule_run_last ON schedule_run (schedule, root_id, started_at);
CREATE INDEX run_root ON run (root_id);
CREATE INDEX history_inode ON history (inode) WHERE inode IS NOT NULL;
CREATE INDEX history_file ON history (file_id);
CREATE INDEX history_deleted ON history (root_id, size_bytes, md5) WHERE replaced_because = 'deleted';
CREATE INDEX history_replaced ON history (root_id, replaced_at);
CREATE INDEX history_path ON history (root_id, path);
CREATE INDEX history_deleted_time ON history (root_id, size_bytes, mtime_ns) WHERE replaced_because = 'deleted';
CREATE INDEX file_inode ON file (inode);
CREATE INDEX file_seen_inode ON file (seen_inode) WHERE seen_inode IS NOT NULL;
CREATE INDEX finding_file ON finding (file_id);
CREATE UNIQUE INDEX finding_unresolved ON finding (root_id, kind, path, copy) WHERE state != 'resolved';
CREATE INDEX finding_incident ON finding (incident) WHERE state != 'resolved';
CREATE INDEX candidate_run ON candidate (run_id);
CREATE TRIGGER "meta_sealed" AFTER INSERT ON "meta" BEGIN UPDATE "meta" SET seal = row_seal('meta', CAST(NEW."key" AS BLOB), CAST(NEW."value" AS BLOB)) WHERE "key" = NEW."key"; END;
CREATE TRIGGER "meta_resealed" AFTER UPDATE OF "key", "value" ON "meta" WHEN OLD.seal IS row_seal('meta', CAST(OLD."key" AS BLOB), CAST(OLD."value" AS BLOB)) BEGIN UPDATE "meta" SET seal = row_seal('meta', CAST(NEW."key" AS BLOB), CAST(NEW."value" AS BLOB)) WHERE "key" = NEW."key"; END;
CREATE TRIGGER "root_sealed" AFTER INSERT ON "root" BEGIN UPDATE "root" SET seal = row_seal('root', NEW."id", NEW."token", NEW."path", CAST(NEW."fs_id" AS BLOB), NEW."folder_inode", CAST(NEW."fs_type" AS BLOB), CAST(NEW."state" AS BLOB), CAST(NEW."state_reason" AS BLOB), NEW."created_at", NEW."file_count", NEW."seal_xor") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "root_resealed" AFTER UPDATE OF "id", "token", "path", "fs_id", "folder_inode", "fs_type", "state", "state_reason", "created_at", "file_count", "seal_xor" ON "root" WHEN OLD.seal IS row_seal('root', OLD."id", OLD."token", OLD."path", CAST(OLD."fs_id" AS BLOB), OLD."folder_inode", CAST(OLD."fs_type" AS BLOB), CAST(OLD."state" AS BLOB), CAST(OLD."state_reason" AS BLOB), OLD."created_at", OLD."file_count", OLD."seal_xor") BEGIN UPDATE "root" SET seal = row_seal('root', NEW."id", NEW."token", NEW."path", CAST(NEW."fs_id" AS BLOB), NEW."folder_inode", CAST(NEW."fs_type" AS BLOB), CAST(NEW."state" AS BLOB), CAST(NEW."state_reason" AS BLOB), NEW."created_at", NEW."file_count", NEW."seal_xor") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "nested_mount_sealed" AFTER INSERT ON "nested_mount" BEGIN UPDATE "nested_mount" SET seal = row_seal('nested_mount', NEW."root_id", NEW."path", CAST(NEW."identity" AS BLOB)) WHERE "root_id" = NEW."root_id" AND "path" = NEW."path"; END;
CREATE TRIGGER "nested_mount_resealed" AFTER UPDATE OF "root_id", "path", "identity" ON "nested_mount" WHEN OLD.seal IS row_seal('nested_mount', OLD."root_id", OLD."path", CAST(OLD."identity" AS BLOB)) BEGIN UPDATE "nested_mount" SET seal = row_seal('nested_mount', NEW."root_id", NEW."path", CAST(NEW."identity" AS BLOB)) WHERE "root_id" = NEW."root_id" AND "path" = NEW."path"; END;
CREATE TRIGGER "configured_root_sealed" AFTER INSERT ON "configured_root" BEGIN UPDATE "configured_root" SET seal = row_seal('configured_root', NEW."root_id") WHERE "root_id" = NEW."root_id"; END;
CREATE TRIGGER "configured_root_resealed" AFTER UPDATE OF "root_id" ON "configured_root" WHEN OLD.seal IS row_seal('configured_root', OLD."root_id") BEGIN UPDATE "configured_root" SET seal = row_seal('configured_root', NEW."root_id") WHERE "root_id" = NEW."root_id"; END;
CREATE TRIGGER "boot_sealed" AFTER INSERT ON "boot" BEGIN UPDATE "boot" SET seal = row_seal('boot', NEW."id", CAST(NEW."uuid" AS BLOB), CAST(NEW."fs_id" AS BLOB), CAST(NEW."mount" AS BLOB), NEW."mount_count", NEW."first_seen_at", NEW."stopped_cleanly_at") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "boot_resealed" AFTER UPDATE OF "id", "uuid", "fs_id", "mount", "mount_count", "first_seen_at", "stopped_cleanly_at" ON "boot" WHEN OLD.seal IS row_seal('boot', OLD."id", CAST(OLD."uuid" AS BLOB), CAST(OLD."fs_id" AS BLOB), CAST(OLD."mount" AS BLOB), OLD."mount_count", OLD."first_seen_at", OLD."stopped_cleanly_at") BEGIN UPDATE "boot" SET seal = row_seal('boot', NEW."id", CAST(NEW."uuid" AS BLOB), CAST(NEW."fs_id" AS BLOB), CAST(NEW."mount" AS BLOB), NEW."mount_count", NEW."first_seen_at", NEW."stopped_cleanly_at") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "finding_sealed" AFTER INSERT ON "finding" BEGIN UPDATE "finding" SET seal = row_seal('finding', NEW."id", NEW."root_id", NEW."file_id", NEW."path", CAST(NEW."kind" AS BLOB), CAST(NEW."certainty" AS BLOB), CAST(NEW."state" AS BLOB), NEW."opened_at", NEW."updated_at", NEW."resolved_at", CAST(NEW."resolution" AS BLOB), NEW."muted_until", CAST(NEW."blocks" AS BLOB), NEW."block_size_bytes", CAST(NEW."ranges" AS BLOB), NEW."confirmed_reads", CAST(NEW."message" AS BLOB), NEW."run_id", CAST(NEW."copy" AS BLOB), CAST(NEW."step" AS BLOB), CAST(NEW."command" AS BLOB), NEW."opened_by", NEW."incident") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "finding_resealed" AFTER UPDATE OF "id", "root_id", "file_id", "path", "kind", "certainty", "state", "opened_at", "updated_at", "resolved_at", "resolution", "muted_until", "blocks", "block_size_bytes", "ranges", "confirmed_reads", "message", "run_id", "copy", "step", "command", "opened_by", "incident" ON "finding" WHEN OLD.seal IS row_seal('finding', OLD."id", OLD."root_id", OLD."file_id", OLD."path", CAST(OLD."kind" AS BLOB), CAST(OLD."certainty" AS BLOB), CAST(OLD."state" AS BLOB), OLD."opened_at", OLD."updated_at", OLD."resolved_at", CAST(OLD."resolution" AS BLOB), OLD."muted_until", CAST(OLD."blocks" AS BLOB), OLD."block_size_bytes", CAST(OLD."ranges" AS BLOB), OLD."confirmed_reads", CAST(OLD."message" AS BLOB), OLD."run_id", CAST(OLD."copy" AS BLOB), CAST(OLD."step" AS BLOB), CAST(OLD."command" AS BLOB), OLD."opened_by", OLD."incident") BEGIN UPDATE "finding" SET seal = row_seal('finding', NEW."id", NEW."root_id", NEW."file_id", NEW."path", CAST(NEW."kind" AS BLOB), CAST(NEW."certainty" AS BLOB), CAST(NEW."state" AS BLOB), NEW."opened_at", NEW."updated_at", NEW."resolved_at", CAST(NEW."resolution" AS BLOB), NEW."muted_until", CAST(NEW."blocks" AS BLOB), NEW."block_size_bytes", CAST(NEW."ranges" AS BLOB), NEW."confirmed_reads", CAST(NEW."message" AS BLOB), NEW."run_id", CAST(NEW."copy" AS BLOB), CAST(NEW."step" AS BLOB), CAST(NEW."command" AS BLOB), NEW."opened_by", NEW."incident") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "told_sealed" AFTER INSERT ON "told" BEGIN UPDATE "told" SET seal = row_seal('told', NEW."finding_id", CAST(NEW."certainty" AS BLOB), CAST(NEW."blocks" AS BLOB), CAST(NEW."ranges" AS BLOB), NEW."first_told_at", NEW."swallowed_by") WHERE "finding_id" = NEW."finding_id"; END;
CREATE TRIGGER "told_resealed" AFTER UPDATE OF "finding_id", "certainty", "blocks", "ranges", "first_told_at", "swallowed_by" ON "told" WHEN OLD.seal IS row_seal('told', OLD."finding_id", CAST(OLD."certainty" AS BLOB), CAST(OLD."blocks" AS BLOB), CAST(OLD."ranges" AS BLOB), OLD."first_told_at", OLD."swallowed_by") BEGIN UPDATE "told" SET seal = row_seal('told', NEW."finding_id", CAST(NEW."certainty" AS BLOB), CAST(NEW."blocks" AS BLOB), CAST(NEW."ranges" AS BLOB), NEW."first_told_at", NEW."swallowed_by") WHERE "finding_id" = NEW."finding_id"; END;
CREATE TRIGGER "channel_sealed" AFTER INSERT ON "channel" BEGIN UPDATE "channel" SET seal = row_seal('channel', CAST(NEW."name" AS BLOB), NEW."first_seen_at", NEW."good_at", NEW."failing_since", NEW."failed_at", NEW."is_permanent", CAST(NEW."last_error" AS BLOB), NEW."told_at") WHERE "name" = NEW."name"; END;
CREATE TRIGGER "channel_resealed" AFTER UPDATE OF "name", "first_seen_at", "good_at", "failing_since", "failed_at", "is_permanent", "last_error", "told_at" ON "channel" WHEN OLD.seal IS row_seal('channel', CAST(OLD."name" AS BLOB), OLD."first_seen_at", OLD."good_at", OLD."failing_since", OLD."failed_at", OLD."is_permanent", CAST(OLD."last_error" AS BLOB), OLD."told_at") BEGIN UPDATE "channel" SET seal = row_seal('channel', CAST(NEW."name" AS BLOB), NEW."first_seen_at", NEW."good_at", NEW."failing_since", NEW."failed_at", NEW."is_permanent", CAST(NEW."last_error" AS BLOB), NEW."told_at") WHERE "name" = NEW."name"; END;
CREATE TRIGGER "copy_sealed" AFTER INSERT ON "copy" BEGIN UPDATE "copy" SET seal = row_seal('copy', NEW."id", NEW."root_id", NEW."prefix", CAST(NEW."name" AS BLOB), CAST(NEW."url" AS BLOB), CAST(NEW."identity" AS BLOB), NEW."has_bytes", NEW."created_at", NEW."listed_at") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "copy_resealed" AFTER UPDATE OF "id", "root_id", "prefix", "name", "url", "identity", "has_bytes", "created_at", "listed_at" ON "copy" WHEN OLD.seal IS row_seal('copy', OLD."id", OLD."root_id", OLD."prefix", CAST(OLD."name" AS BLOB), CAST(OLD."url" AS BLOB), CAST(OLD."identity" AS BLOB), OLD."has_bytes", OLD."created_at", OLD."listed_at") BEGIN UPDATE "copy" SET seal = row_seal('copy', NEW."id", NEW."root_id", NEW."prefix", CAST(NEW."name" AS BLOB), CAST(NEW."url" AS BLOB), CAST(NEW."identity" AS BLOB), NEW."has_bytes", NEW."created_at", NEW."listed_at") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "gate_sealed" AFTER INSERT ON "gate" BEGIN UPDATE "gate" SET seal = row_seal('gate', NEW."root_id", NEW."prefix", NEW."passed_at", NEW."last_history_id", NEW."last_file_id") WHERE "root_id" = NEW."root_id" AND "prefix" = NEW."prefix"; END;
CREATE TRIGGER "gate_resealed" AFTER UPDATE OF "root_id", "prefix", "passed_at", "last_history_id", "last_file_id" ON "gate" WHEN OLD.seal IS row_seal('gate', OLD."root_id", OLD."prefix", OLD."passed_at", OLD."last_history_id", OLD."last_file_id") BEGIN UPDATE "gate" SET seal = row_seal('gate', NEW."root_id", NEW."prefix", NEW."passed_at", NEW."last_history_id", NEW."last_file_id") WHERE "root_id" = NEW."root_id" AND "prefix" = NEW."prefix"; END;
CREATE TRIGGER "run_sealed" AFTER INSERT ON "run" BEGIN UPDATE "run" SET seal = row_seal('run', NEW."id", NEW."root_id", CAST(NEW."job" AS BLOB), NEW."started_at", NEW."finished_at", CAST(NEW."outcome" AS BLOB), NEW."boot_id", NEW."pid", NEW."verified", NEW."new", NEW."changed", NEW."damaged", NEW."missing", NEW."unreadable", NEW."unstable", NEW."skipped", NEW."not_due", NEW."moved", NEW."bytes_read", NEW."findings_opened", NEW."findings_open", NEW."duration_s", CAST(NEW."error" AS BLOB), CAST(NEW."copy" AS BLOB), NEW."last_file_id") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "run_resealed" AFTER UPDATE OF "id", "root_id", "job", "started_at", "finished_at", "outcome", "boot_id", "pid", "verified", "new", "changed", "damaged", "missing", "unreadable", "unstable", "skipped", "not_due", "moved", "bytes_read", "findings_opened", "findings_open", "duration_s", "error", "copy", "last_file_id" ON "run" WHEN OLD.seal IS row_seal('run', OLD."id", OLD."root_id", CAST(OLD."job" AS BLOB), OLD."started_at", OLD."finished_at", CAST(OLD."outcome" AS BLOB), OLD."boot_id", OLD."pid", OLD."verified", OLD."new", OLD."changed", OLD."damaged", OLD."missing", OLD."unreadable", OLD."unstable", OLD."skipped", OLD."not_due", OLD."moved", OLD."bytes_read", OLD."findings_opened", OLD."findings_open", OLD."duration_s", CAST(OLD."error" AS BLOB), CAST(OLD."copy" AS BLOB), OLD."last_file_id") BEGIN UPDATE "run" SET seal = row_seal('run', NEW."id", NEW."root_id", CAST(NEW."job" AS BLOB), NEW."started_at", NEW."finished_at", CAST(NEW."outcome" AS BLOB), NEW."boot_id", NEW."pid", NEW."verified", NEW."new", NEW."changed", NEW."damaged", NEW."missing", NEW."unreadable", NEW."unstable", NEW."skipped", NEW."not_due", NEW."moved", NEW."bytes_read", NEW."findings_opened", NEW."findings_open", NEW."duration_s", CAST(NEW."error" AS BLOB), CAST(NEW."copy" AS BLOB), NEW."last_file_id") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "candidate_sealed" AFTER INSERT ON "candidate" BEGIN UPDATE "candidate" SET seal = row_seal('candidate', NEW."file_id", CAST(NEW."kind" AS BLOB), NEW."size_bytes", NEW."mtime_ns", NEW."ctime_ns", NEW."inode", NEW."is_racy", NEW."md5", NEW."xxh3_128", NEW."blake3", NEW."block_size_bytes", NEW."version", CAST(NEW."verdict" AS BLOB), CAST(NEW."because" AS BLOB), CAST(NEW."read_how" AS BLOB), NEW."seen_at", NEW."run_id", CAST(NEW."state" AS BLOB), NEW."crc64nvme") WHERE "file_id" = NEW."file_id"; END;
CREATE TRIGGER "candidate_resealed" AFTER UPDATE OF "file_id", "kind", "size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy", "md5", "xxh3_128", "blake3", "block_size_bytes", "version", "verdict", "because", "read_how", "seen_at", "run_id", "state", "crc64nvme" ON "candidate" WHEN OLD.seal IS row_seal('candidate', OLD."file_id", CAST(OLD."kind" AS BLOB), OLD."size_bytes", OLD."mtime_ns", OLD."ctime_ns", OLD."inode", OLD."is_racy", OLD."md5", OLD."xxh3_128", OLD."blake3", OLD."block_size_bytes", OLD."version", CAST(OLD."verdict" AS BLOB), CAST(OLD."because" AS BLOB), CAST(OLD."read_how" AS BLOB), OLD."seen_at", OLD."run_id", CAST(OLD."state" AS BLOB), OLD."crc64nvme") BEGIN UPDATE "candidate" SET seal = row_seal('candidate', NEW."file_id", CAST(NEW."kind" AS BLOB), NEW."size_bytes", NEW."mtime_ns", NEW."ctime_ns", NEW."inode", NEW."is_racy", NEW."md5", NEW."xxh3_128", NEW."blake3", NEW."block_size_bytes", NEW."version", CAST(NEW."verdict" AS BLOB), CAST(NEW."because" AS BLOB), CAST(NEW."read_how" AS BLOB), NEW."seen_at", NEW."run_id", CAST(NEW."state" AS BLOB), NEW."crc64nvme") WHERE "file_id" = NEW."file_id"; END;
CREATE TRIGGER "history_sealed" AFTER INSERT ON "history" BEGIN UPDATE "history" SET seal = row_seal('history', NEW."id", NEW."root_id", NEW."file_id", NEW."path", NEW."size_bytes", NEW."mtime_ns", NEW."md5", NEW."xxh3_128", NEW."blake3", NEW."version", NEW."recorded_at", CAST(NEW."reason" AS BLOB), NEW."replaced_at", CAST(NEW."replaced_because" AS BLOB), CAST(NEW."note" AS BLOB), NEW."crc64nvme", NEW."block_size_bytes", NEW."is_racy", NEW."ctime_ns", NEW."inode") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "history_resealed" AFTER UPDATE OF "id", "root_id", "file_id", "path", "size_bytes", "mtime_ns", "md5", "xxh3_128", "blake3", "version", "recorded_at", "reason", "replaced_at", "replaced_because", "note", "crc64nvme", "block_size_bytes", "is_racy", "ctime_ns", "inode" ON "history" WHEN OLD.seal IS row_seal('history', OLD."id", OLD."root_id", OLD."file_id", OLD."path", OLD."size_bytes", OLD."mtime_ns", OLD."md5", OLD."xxh3_128", OLD."blake3", OLD."version", OLD."recorded_at", CAST(OLD."reason" AS BLOB), OLD."replaced_at", CAST(OLD."replaced_because" AS BLOB), CAST(OLD."note" AS BLOB), OLD."crc64nvme", OLD."block_size_bytes", OLD."is_racy", OLD."ctime_ns", OLD."inode") BEGIN UPDATE "history" SET seal = row_seal('history', NEW."id", NEW."root_id", NEW."file_id", NEW."path", NEW."size_bytes", NEW."mtime_ns", NEW."md5", NEW."xxh3_128", NEW."blake3", NEW."version", NEW."recorded_at", CAST(NEW."reason" AS BLOB), NEW."replaced_at", CAST(NEW."replaced_because" AS BLOB), CAST(NEW."note" AS BLOB), NEW."crc64nvme", NEW."block_size_bytes", NEW."is_racy", NEW."ctime_ns", NEW."inode") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "checkpoint_sealed" AFTER INSERT ON "checkpoint" BEGIN UPDATE "checkpoint" SET seal = row_seal('checkpoint', NEW."id", NEW."root_id", NEW."path", CAST(NEW."purpose" AS BLOB), NEW."size_bytes", NEW."mtime_ns", NEW."ctime_ns", NEW."inode", NEW."is_racy", NEW."offset_bytes", NEW."md5_state", CAST(NEW."bad_blocks" AS BLOB), NEW."block_size_bytes", NEW."saved_at") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "checkpoint_resealed" AFTER UPDATE OF "id", "root_id", "path", "purpose", "size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy", "offset_bytes", "md5_state", "bad_blocks", "block_size_bytes", "saved_at" ON "checkpoint" WHEN OLD.seal IS row_seal('checkpoint', OLD."id", OLD."root_id", OLD."path", CAST(OLD."purpose" AS BLOB), OLD."size_bytes", OLD."mtime_ns", OLD."ctime_ns", OLD."inode", OLD."is_racy", OLD."offset_bytes", OLD."md5_state", CAST(OLD."bad_blocks" AS BLOB), OLD."block_size_bytes", OLD."saved_at") BEGIN UPDATE "checkpoint" SET seal = row_seal('checkpoint', NEW."id", NEW."root_id", NEW."path", CAST(NEW."purpose" AS BLOB), NEW."size_bytes", NEW."mtime_ns", NEW."ctime_ns", NEW."inode", NEW."is_racy", NEW."offset_bytes", NEW."md5_state", CAST(NEW."bad_blocks" AS BLOB), NEW."block_size_bytes", NEW."saved_at") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "schedule_run_sealed" AFTER INSERT ON "schedule_run" BEGIN UPDATE "schedule_run" SET seal = row_seal('schedule_run', NEW."id", CAST(NEW."schedule" AS BLOB), NEW."root_id", NEW."due_at", NEW."started_at", NEW."finished_at", CAST(NEW."outcome" AS BLOB)) WHERE "id" = NEW."id"; END;
CREATE TRIGGER "schedule_run_resealed" AFTER UPDATE OF "id", "schedule", "root_id", "due_at", "started_at", "finished_at", "outcome" ON "schedule_run" WHEN OLD.seal IS row_seal('schedule_run', OLD."id", CAST(OLD."schedule" AS BLOB), OLD."root_id", OLD."due_at", OLD."started_at", OLD."finished_at", CAST(OLD."outcome" AS BLOB)) BEGIN UPDATE "schedule_run" SET seal = row_seal('schedule_run', NEW."id", CAST(NEW."schedule" AS BLOB), NEW."root_id", NEW."due_at", NEW."started_at", NEW."finished_at", CAST(NEW."outcome" AS BLOB)) WHERE "id" = NEW."id"; END;
CREATE TRIGGER "alert_sealed" AFTER INSERT ON "alert" BEGIN UPDATE "alert" SET seal = row_seal('alert', NEW."id", CAST(NEW."kind" AS BLOB), CAST(NEW."message_id" AS BLOB), CAST(NEW."subject" AS BLOB), CAST(NEW."body" AS BLOB), CAST(NEW."html" AS BLOB), CAST(NEW."facts" AS BLOB), CAST(NEW."incidents" AS BLOB), NEW."created_at") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "alert_resealed" AFTER UPDATE OF "id", "kind", "message_id", "subject", "body", "html", "facts", "incidents", "created_at" ON "alert" WHEN OLD.seal IS row_seal('alert', OLD."id", CAST(OLD."kind" AS BLOB), CAST(OLD."message_id" AS BLOB), CAST(OLD."subject" AS BLOB), CAST(OLD."body" AS BLOB), CAST(OLD."html" AS BLOB), CAST(OLD."facts" AS BLOB), CAST(OLD."incidents" AS BLOB), OLD."created_at") BEGIN UPDATE "alert" SET seal = row_seal('alert', NEW."id", CAST(NEW."kind" AS BLOB), CAST(NEW."message_id" AS BLOB), CAST(NEW."subject" AS BLOB), CAST(NEW."body" AS BLOB), CAST(NEW."html" AS BLOB), CAST(NEW."facts" AS BLOB), CAST(NEW."incidents" AS BLOB), NEW."created_at") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "delivery_sealed" AFTER INSERT ON "delivery" BEGIN UPDATE "delivery" SET seal = row_seal('delivery', NEW."alert_id", CAST(NEW."channel" AS BLOB), NEW."attempts", NEW."next_try_at", NEW."sent_at", CAST(NEW."last_error" AS BLOB)) WHERE "alert_id" = NEW."alert_id" AND "channel" = NEW."channel"; END;
CREATE TRIGGER "delivery_resealed" AFTER UPDATE OF "alert_id", "channel", "attempts", "next_try_at", "sent_at", "last_error" ON "delivery" WHEN OLD.seal IS row_seal('delivery', OLD."alert_id", CAST(OLD."channel" AS BLOB), OLD."attempts", OLD."next_try_at", OLD."sent_at", CAST(OLD."last_error" AS BLOB)) BEGIN UPDATE "delivery" SET seal = row_seal('delivery', NEW."alert_id", CAST(NEW."channel" AS BLOB), NEW."attempts", NEW."next_try_at", NEW."sent_at", CAST(NEW."last_error" AS BLOB)) WHERE "alert_id" = NEW."alert_id" AND "channel" = NEW."channel"; END;
CREATE TRIGGER "copy_file_sealed" AFTER INSERT ON "copy_file" BEGIN UPDATE "copy_file" SET seal = row_seal('copy_file', NEW."copy_id", NEW."file_id", NEW."version", CAST(NEW."vote" AS BLOB), NEW."compared_at", NEW."read_at", NEW."stated") WHERE "copy_id" = NEW."copy_id" AND "file_id" = NEW."file_id"; END;
CREATE TRIGGER "copy_file_resealed" AFTER UPDATE OF "copy_id", "file_id", "version", "vote", "compared_at", "read_at", "stated" ON "copy_file" WHEN OLD.seal IS row_seal('copy_file', OLD."copy_id", OLD."file_id", OLD."version", CAST(OLD."vote" AS BLOB), OLD."compared_at", OLD."read_at", OLD."stated") BEGIN UPDATE "copy_file" SET seal = row_seal('copy_file', NEW."copy_id", NEW."file_id", NEW."version", CAST(NEW."vote" AS BLOB), NEW."compared_at", NEW."read_at", NEW."stated") WHERE "copy_id" = NEW."copy_id" AND "file_id" = NEW."file_id"; END;
CREATE TRIGGER "copy_reading_sealed" AFTER INSERT ON "copy_reading" BEGIN UPDATE "copy_reading" SET seal = row_seal('copy_reading', NEW."copy_id", NEW."file_id", NEW."version", NEW."size_bytes", NEW."mtime_ns", NEW."ctime_ns", NEW."inode", NEW."is_racy", NEW."offset_bytes", CAST(NEW."bad_blocks" AS BLOB)) WHERE "copy_id" = NEW."copy_id" AND "file_id" = NEW."file_id"; END;
CREATE TRIGGER "copy_reading_resealed" AFTER UPDATE OF "copy_id", "file_id", "version", "size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy", "offset_bytes", "bad_blocks" ON "copy_reading" WHEN OLD.seal IS row_seal('copy_reading', OLD."copy_id", OLD."file_id", OLD."version", OLD."size_bytes", OLD."mtime_ns", OLD."ctime_ns", OLD."inode", OLD."is_racy", OLD."offset_bytes", CAST(OLD."bad_blocks" AS BLOB)) BEGIN UPDATE "copy_reading" SET seal = row_seal('copy_reading', NEW."copy_id", NEW."file_id", NEW."version", NEW."size_bytes", NEW."mtime_ns", NEW."ctime_ns", NEW."inode", NEW."is_racy", NEW."offset_bytes", CAST(NEW."bad_blocks" AS BLOB)) WHERE "copy_id" = NEW."copy_id" AND "file_id" = NEW."file_id"; END;
CREATE TRIGGER "action_sealed" AFTER INSERT ON "action" BEGIN UPDATE "action" SET seal = row_seal('action', NEW."id", NEW."at", CAST(NEW."who" AS BLOB), CAST(NEW."address" AS BLOB), CAST(NEW."verb" AS BLOB), NEW."root", NEW."path", CAST(NEW."findings" AS BLOB), CAST(NEW."reason" AS BLOB), CAST(NEW."outcome" AS BLOB)) WHERE "id" = NEW."id"; END;
CREATE TRIGGER "action_resealed" AFTER UPDATE OF "id", "at", "who", "address", "verb", "root", "path", "findings", "reason", "outcome" ON "action" WHEN OLD.seal IS row_seal('action', OLD."id", OLD."at", CAST(OLD."who" AS BLOB), CAST(OLD."address" AS BLOB), CAST(OLD."verb" AS BLOB), OLD."root", OLD."path", CAST(OLD."findings" AS BLOB), CAST(OLD."reason" AS BLOB), CAST(OLD."outcome" AS BLOB)) BEGIN UPDATE "action" SET seal = row_seal('action', NEW."id", NEW."at", CAST(NEW."who" AS BLOB), CAST(NEW."address" AS BLOB), CAST(NEW."verb" AS BLOB), NEW."root", NEW."path", CAST(NEW."findings" AS BLOB), CAST(NEW."reason" AS BLOB), CAST(NEW."outcome" AS BLOB)) WHERE "id" = NEW."id"; END;
CREATE TRIGGER "report_state_sealed" AFTER INSERT ON "report_state" BEGIN UPDATE "report_state" SET seal = row_seal('report_state', NEW."id", CAST(NEW."url" AS BLOB), NEW."stream", NEW."started_at", NEW."confirmed", NEW."chain", NEW."complete_at", NEW."failing_since", CAST(NEW."last_error" AS BLOB)) WHERE "id" = NEW."id"; END;
CREATE TRIGGER "report_state_resealed" AFTER UPDATE OF "id", "url", "stream", "started_at", "confirmed", "chain", "complete_at", "failing_since", "last_error" ON "report_state" WHEN OLD.seal IS row_seal('report_state', OLD."id", CAST(OLD."url" AS BLOB), OLD."stream", OLD."started_at", OLD."confirmed", OLD."chain", OLD."complete_at", OLD."failing_since", CAST(OLD."last_error" AS BLOB)) BEGIN UPDATE "report_state" SET seal = row_seal('report_state', NEW."id", CAST(NEW."url" AS BLOB), NEW."stream", NEW."started_at", NEW."confirmed", NEW."chain", NEW."complete_at", NEW."failing_since", CAST(NEW."last_error" AS BLOB)) WHERE "id" = NEW."id"; END;
CREATE TRIGGER "report_change_sealed" AFTER INSERT ON "report_change" BEGIN UPDATE "report_change" SET seal = row_seal('report_change', NEW."id", CAST(NEW."kind" AS BLOB), NEW."item_id") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "report_change_resealed" AFTER UPDATE OF "id", "kind", "item_id" ON "report_change" WHEN OLD.seal IS row_seal('report_change', OLD."id", CAST(OLD."kind" AS BLOB), OLD."item_id") BEGIN UPDATE "report_change" SET seal = row_seal('report_change', NEW."id", CAST(NEW."kind" AS BLOB), NEW."item_id") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "report_message_sealed" AFTER INSERT ON "report_message" BEGIN UPDATE "report_message" SET seal = row_seal('report_message', NEW."number", NEW."at", CAST(NEW."kind" AS BLOB), NEW."item_id", CAST(NEW."body" AS BLOB)) WHERE "number" = NEW."number"; END;
CREATE TRIGGER "report_message_resealed" AFTER UPDATE OF "number", "at", "kind", "item_id", "body" ON "report_message" WHEN OLD.seal IS row_seal('report_message', OLD."number", OLD."at", CAST(OLD."kind" AS BLOB), OLD."item_id", CAST(OLD."body" AS BLOB)) BEGIN UPDATE "report_message" SET seal = row_seal('report_message', NEW."number", NEW."at", CAST(NEW."kind" AS BLOB), NEW."item_id", CAST(NEW."body" AS BLOB)) WHERE "number" = NEW."number"; END;
CREATE TRIGGER "report_folder_sealed" AFTER INSERT ON "report_folder" BEGIN UPDATE "report_folder" SET seal = row_seal('report_folder', NEW."folder_id", NEW."own", NEW."content") WHERE "folder_id" = NEW."folder_id"; END;
CREATE TRIGGER "report_folder_resealed" AFTER UPDATE OF "folder_id", "own", "content" ON "report_folder" WHEN OLD.seal IS row_seal('report_folder', OLD."folder_id", OLD."own", OLD."content") BEGIN UPDATE "report_folder" SET seal = row_seal('report_folder', NEW."folder_id", NEW."own", NEW."content") WHERE "folder_id" = NEW."folder_id"; END;
CREATE TRIGGER "file_resealed" AFTER UPDATE OF "id", "seal", "recorded_at", "reason", "verified_at", "read_how", "boot_id", "is_suspect", "is_frozen", "seen_inode", "seen_ctime_ns" ON "file" WHEN NEW.state_seal IS OLD.state_seal AND OLD.state_seal IS row_seal('file', OLD."id", OLD."seal", OLD."recorded_at", CAST(OLD."reason" AS BLOB), OLD."verified_at", CAST(OLD."read_how" AS BLOB), OLD."boot_id", OLD."is_suspect", OLD."is_frozen", OLD."seen_inode", OLD."seen_ctime_ns") BEGIN UPDATE "file" SET state_seal = row_seal('file', NEW."id", NEW."seal", NEW."recorded_at", CAST(NEW."reason" AS BLOB), NEW."verified_at", CAST(NEW."read_how" AS BLOB), NEW."boot_id", NEW."is_suspect", NEW."is_frozen", NEW."seen_inode", NEW."seen_ctime_ns") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "file_added" AFTER INSERT ON "file" WHEN (SELECT "fingerprint" FROM "folder" WHERE "id" = NEW."folder_id") IS NOT NULL BEGIN UPDATE "folder" SET "fingerprint" = NULL WHERE "id" = NEW."folder_id"; END;
CREATE TRIGGER "file_removed" AFTER DELETE ON "file" WHEN (SELECT "fingerprint" FROM "folder" WHERE "id" = OLD."folder_id") IS NOT NULL BEGIN UPDATE "folder" SET "fingerprint" = NULL WHERE "id" = OLD."folder_id"; END;
CREATE TRIGGER "file_changed" AFTER UPDATE OF "folder_id", "name", "size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy", "is_frozen" ON "file" BEGIN UPDATE "folder" SET "fingerprint" = NULL WHERE "id" IN (OLD."folder_id", NEW."folder_id") AND "fingerprint" IS NOT NULL; END;
CREATE TRIGGER "finding_opened_reported" AFTER INSERT ON "finding" WHEN EXISTS (SELECT 1 FROM "report_state") BEGIN INSERT INTO "report_change" ("kind", "item_id") SELECT 'finding', NEW."id" WHERE NOT EXISTS (SELECT 1 FROM "report_change" WHERE "kind" = 'finding' AND "item_id" = NEW."id"); END;
CREATE TRIGGER "finding_changed_reported" AFTER UPDATE OF "kind", "path", "certainty", "state", "resolved_at", "muted_until", "blocks", "ranges", "message", "copy", "step", "command", "incident" ON "finding" WHEN EXISTS (SELECT 1 FROM "report_state") AND (OLD."kind" IS NOT NEW."kind" OR OLD."path" IS NOT NEW."path" OR OLD."certainty" IS NOT NEW."certainty" OR OLD."state" IS NOT NEW."state" OR OLD."resolved_at" IS NOT NEW."resolved_at" OR OLD."muted_until" IS NOT NEW."muted_until" OR OLD."blocks" IS NOT NEW."blocks" OR OLD."ranges" IS NOT NEW."ranges" OR OLD."message" IS NOT NEW."message" OR OLD."copy" IS NOT NEW."copy" OR OLD."step" IS NOT NEW."step" OR OLD."command" IS NOT NEW."command" OR OLD."incident" IS NOT NEW."incident") BEGIN INSERT INTO "report_change" ("kind", "item_id") SELECT 'finding', NEW."id" WHERE NOT EXISTS (SELECT 1 FROM "report_change" WHERE "kind" = 'finding' AND "item_id" = NEW."id"); END;
CREATE TRIGGER "finding_gone_reported" AFTER DELETE ON "finding" WHEN EXISTS (SELECT 1 FROM "report_state") BEGIN INSERT INTO "report_change" ("kind", "item_id") SELECT 'finding', OLD."id" WHERE NOT EXISTS (SELECT 1 FROM "report_change" WHERE "kind" = 'finding' AND "item_id" = OLD."id"); END;
CREATE TRIGGER "run_reported" AFTER UPDATE OF "outcome" ON "run" WHEN EXISTS (SELECT 1 FROM "report_state") AND OLD."outcome" IS NULL AND NEW."outcome" IS NOT NULL BEGIN INSERT INTO "report_change" ("kind", "item_id") SELECT 'run', NEW."id" WHERE NOT EXISTS (SELECT 1 FROM "report_change" WHERE "kind" = 'run' AND "item_id" = NEW."id"); DELETE FROM "report_change" WHERE "kind" = 'run' AND "item_id" <= NEW."id" - 10000; END;
CREATE TRIGGER "action_reported" AFTER INSERT ON "action" WHEN EXISTS (SELECT 1 FROM "report_state") BEGIN INSERT INTO "report_change" ("kind", "item_id") SELECT 'action', NEW."id" WHERE NOT EXISTS (SELECT 1 FROM "report_change" WHERE "kind" = 'action' AND "item_id" = NEW."id"); END;
CREATE TRIGGER "file_added_reported" AFTER INSERT ON "file" BEGIN DELETE FROM "report_folder" WHERE "folder_id" = NEW."folder_id"; END;
CREATE TRIGGER "file_removed_reported" AFTER DELETE ON "file" BEGIN DELETE FROM "report_folder" WHERE "folder_id" = OLD."folder_id"; END;
CREATE TRIGGER "file_changed_reported" AFTER UPDATE OF "folder_id", "name", "size_bytes", "mtime_ns", "md5", "xxh3_128", "recorded_at", "verified_at", "read_how", "is_suspect", "is_frozen", "seal", "state_seal" ON "file" BEGIN DELETE FROM "report_folder" WHERE "folder_id" IN (OLD."folder_id", NEW."folder_id"); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('finding',2);
COMMIT;
