-- A catalog of schema 0005, written by that version of integrity; rows with wrong seals: 4.
PRAGMA application_id = 1768846439;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0005');
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
INSERT INTO "block_run" VALUES(1,1,0,8,X'598BF98D5C865461AEF3EAA8D95A0FD92F310658B33EC2190F663A4CEF22AD31FCD6BCB56C1689FCEF28B57C22475BADFCD6BCB56C1689FCEF28B57C22475BADFCD6BCB56C1689FCEF28B57C22475BADFCD6BCB56C1689FCEF28B57C22475BADFCD6BCB56C1689FCEF28B57C22475BADA94B93AE7758767AD73627FA054B9C7A',X'0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000',X'1C305A1CDD802A273F6FC2DB321BA3C5',X'8BD3F06353EFF8281C9536EC86967ED056441F54F873A6C856441F54F873A6C856441F54F873A6C856441F54F873A6C856441F54F873A6C89A2B9CE07F95C3D4');
INSERT INTO "block_run" VALUES(2,1,0,5,X'B257D7DC86FFB7BA582897A89381B1A51994468F6AABF777CE2A86618AE97F126333933B0C88B9E54B0576E5C771F057416B9DB983CC931AB7A233C0D671668321D06DBBAE762DD5DBDA72B1B2D0A785',X'0973CE0EC92A2B95DA8B794F838A1DDCF9F832D3B38160E238B9B266B86EB7289DDEB250943DBDD1695554DB18C219E4682AD4CD792534C9F1AFA919FC56BC92DAF9E09952F974468B78E4C8AD5B0091',X'C21CA0E407F5357E4FB5F364C0201BB8',X'11F5C7ADF34002CA03CDAC800CF714DC3D285A02A8C573C4713B16A2457E188A85046845C3ACDF81');
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
INSERT INTO "boot" VALUES(1,'5326b0f5-99b7-4add-b0b6-8a30428e10ce','','',NULL,1795761026,NULL,X'2B13BAC85CD9793965F3BFE9163BF139');
INSERT INTO "boot" VALUES(2,'5326b0f5-99b7-4add-b0b6-8a30428e10ce','uuid:5ec71dc2-f7bb-4541-8ad0-90661935754f','/sys/fs/ext4/vda 18503',1,1795761026,NULL,X'82909074805D941140CEA5B327943D57');
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
	PRIMARY KEY (file_id), 
	FOREIGN KEY(file_id) REFERENCES file (id), 
	FOREIGN KEY(run_id) REFERENCES run (id)
)
 STRICT

;
INSERT INTO "candidate" VALUES(10,'change',2100,1795674825000000000,1795761040980034306,761911,0,X'211A7012DD71558638D49D23609E05F6',X'A093B46BCE2693F741D7D355B724F1DD',NULL,NULL,0,'changed','edited','cache_possible',1795761042,8,'frozen',X'2F079A579FFF9632F71D26939CC18E3E',X'5B0902A4F0724698');
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
INSERT INTO "copy" VALUES(1,1,X'','/srv/nas/backup','/srv/nas/backup','uuid:5ec71dc2-f7bb-4541-8ad0-90661935754f 761958',1,1795761028,1795761028,X'1A0946CE5D513C2B8D52DAAA46142ED4');
CREATE TABLE copy_file (
	copy_id INTEGER NOT NULL, 
	file_id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	vote TEXT NOT NULL, 
	compared_at INTEGER NOT NULL, 
	read_at INTEGER, 
	stated BLOB CHECK (length(stated) = 16), 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY (copy_id, file_id), 
	FOREIGN KEY(copy_id) REFERENCES copy (id)
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "copy_file" VALUES(1,1,1,'differs',1795761028,1795761028,NULL,X'2D525933C5FBE997158D57A41ED67140');
INSERT INTO "copy_file" VALUES(1,2,1,'same',1795761028,1795761028,NULL,X'9438C18980EE6D824CF4F42576F9E6FF');
INSERT INTO "copy_file" VALUES(1,3,1,'same',1795761028,1795761028,NULL,X'B789F61FC0D5B1A267A07C1A6E42304C');
INSERT INTO "copy_file" VALUES(1,4,1,'differs',1795761028,1795761028,NULL,X'3DAE07C483CE4322BB88AC1BAD33110B');
INSERT INTO "copy_file" VALUES(1,5,1,'same',1795761028,1795761028,NULL,X'4B5ADC854B33D6AEA6B53DE269EC213F');
INSERT INTO "copy_file" VALUES(1,6,1,'same',1795761028,1795761028,NULL,X'81C6F3CF2B821BBB15813E32142FA11E');
INSERT INTO "copy_file" VALUES(1,7,1,'same',1795761028,1795761028,NULL,X'36760FF5889A6419268FC3C53AB58E30');
INSERT INTO "copy_file" VALUES(1,8,1,'same',1795761028,1795761028,NULL,X'384E918D310E7E15FDA2FE5471D7E7F0');
INSERT INTO "copy_file" VALUES(1,9,1,'same',1795761028,1795761028,NULL,X'5BB59A390B2041F76558519EC67464F3');
INSERT INTO "copy_file" VALUES(1,10,1,'same',1795761028,1795761028,NULL,X'04A68B8B4E22BE995CC1FBDFD66EFE00');
INSERT INTO "copy_file" VALUES(1,11,1,'same',1795761028,1795761028,NULL,X'87DE3688D262099DEC57C89EA6165C40');
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
	PRIMARY KEY (id), 
	UNIQUE (folder_id, name), 
	FOREIGN KEY(folder_id) REFERENCES folder (id), 
	FOREIGN KEY(boot_id) REFERENCES boot (id)
)
 STRICT

;
INSERT INTO "file" VALUES(1,1,X'686F6C6573',470000,1795674625000000000,1795761025420796465,761915,0,X'CD99C183E845A420B56B37137FC1A346',X'4D6B95F5159F40B554E4821766686DC7',NULL,65536,1,1795761026,'recorded',1795761033,'direct',2,0,0,X'9C12588CAAC5E29B47723A29782999F5',X'703C31981649BCCC',X'4D72B76D319992518220E9E5C931A3F2');
INSERT INTO "file" VALUES(2,2,X'6C617267652E726177',300000,1795674625000000000,1795761025419633916,761899,0,X'B16E2CC293127A0ADD084C2BDAF0B5DC',X'757591FBCC6ECB7B7B4F81E9AAAB03CE',NULL,65536,1,1795761026,'recorded',1795761033,'direct',2,0,0,X'15760BE966BAEF4859A212504A8FB437',X'8947112024794CF2',X'2F928C04B68286F763CC4F6F6B021DAE');
INSERT INTO "file" VALUES(3,3,X'6F6E652E6A7067',900,1795674625000000000,1795761025418498567,761881,0,X'2A1DFC4B4591E453E24EEE334F994B9C',X'3F32AEFE62C9DE35222E3E5B4B389CB8',NULL,NULL,1,1795761026,'recorded',1795761033,'direct',2,0,0,X'77813D676099550C49135AD2676FE24A',X'3E48564F7E66B6B8',X'5A2FDD3967B800C4E1A4BB909CA486C1');
INSERT INTO "file" VALUES(4,3,X'74776F2E6A7067',1200,1795674625000000000,1795761025418569763,761893,0,X'2B0B3C19A1CA04E3BC32A3DC9E425522',X'55602044E5AB18355BD92B68BFF39AC5',NULL,NULL,1,1795761026,'recorded',1795761033,'direct',2,0,0,X'37A901127BA241E343751C0DA5973E41',X'BC09DB0A7EDEAE80',X'6E766D5B1103D0B3115D4BC9B6A1F037');
INSERT INTO "file" VALUES(6,1,X'6564697465642E747874',6,1795674725000000000,1795761029800089383,761902,0,X'A9F0E61A137D86AA9DB53465E0801612',X'885B08846244FEB4E13DCB4BE2A53071',NULL,NULL,3,1795761039,'accepted',NULL,'direct',2,0,0,X'D8C0A9F96CBCA86EA303A65A64BDB7BC',X'0AF9C9E1F216A73E',X'3858F4D6A27DEA6FC21336555E72583C');
INSERT INTO "file" VALUES(7,1,X'656D707479',0,1795674625000000000,1795761025419763298,761900,0,X'D41D8CD98F00B204E9800998ECF8427E',X'99AA06D3014798D86001C324468D497F',NULL,NULL,1,1795761026,'recorded',1795761033,'direct',2,0,0,X'EA0A0031A54B5709FC26A4ED642F1F5B',X'0000000000000000',X'B6915EC32379B79A1E03660F13189A53');
INSERT INTO "file" VALUES(8,3,X'6D6F7665642E747874',11,1795674625000000000,1795761029800089383,761904,0,X'816DE0CFEE14A53902CDFD8E0183D025',X'C20815E02A5B714A05C123F5BE480747',NULL,NULL,1,1795761026,'recorded',1795761033,'direct',2,0,0,X'D973F33F6320747C0B6C60127C5ADFC9',X'12C9837BE0B086ED',X'BDA91431CC452691144B7B6DA56468F9');
INSERT INTO "file" VALUES(9,1,X'6F6464FF0A206E616D65',3,1795674625000000000,1795761025419813042,761901,0,X'A2B6F2A6066ED8700D83335FC50A2B8E',X'4E053B70C5BC2C3A3374938AA86B6DAC',NULL,NULL,1,1795761026,'recorded',1795761033,'direct',2,0,0,X'E512460C6AFD55ED979EDEB7DE5BD7EB',X'1CC2C8CDDAA22997',X'C76F1A1E26EB3EC573D314FF56D9820B');
INSERT INTO "file" VALUES(10,1,X'726F7474656E2E6A7067',2000,1795674625000000000,1795761025420179828,761911,0,X'5765788DFAC3CD815FD7DB18B7F2A58A',X'A7B3DE0364C232653B99680CA642926F',NULL,NULL,1,1795761026,'recorded',1795761032,'direct',2,1,1,X'239397C31876711AD4CADE5D32A22F4F',X'B34EF8E0DEE72A54',X'8B84036B2C28D8D46DA3452AFF4B92CD');
INSERT INTO "file" VALUES(11,1,X'73616D652E6A7067',500,1795674625000000000,1795761025420276842,761912,0,X'00000000000000000000000000000000',X'F0A5E7E1517BE8E9AA19D3FDE2895ABE',NULL,NULL,1,1795761026,'recorded',1795761033,'direct',2,0,0,X'838CA10AD88FDD18459B51C091A521C6',X'A08A90CD9E24500B',X'35B8BFA93AAD0FD2F8EC10C928EC20EE');
INSERT INTO "file" VALUES(12,1,X'6E65772E747874',3,1795674625000000000,1795761029803211538,761903,0,X'22AF645D1859CB5CA6DA0C484F1F37EA',X'4268207A5959016D4DB73088ACE631B8',NULL,NULL,1,1795761030,'recorded',1795761033,'direct',2,0,0,X'320FBC2E15F8057274F6E8443657454D',X'9D89C1CC3FBF3A4A',X'CD36E530A99008C32A657904E0918C2B');
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
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	FOREIGN KEY(root_id) REFERENCES root (id), 
	FOREIGN KEY(run_id) REFERENCES run (id)
)
 STRICT

;
INSERT INTO "finding" VALUES(1,1,4,X'323031392F74776F2E6A7067','copy_differs',NULL,'muted',1795761028,1795761028,NULL,NULL,1924992000,'[]',NULL,'[]',0,'the copy /srv/nas/backup is not what was recorded (by its bytes, read back); the file here is: it was just read from its disk',3,'/srv/nas/backup','back the file up again, then compare','integrity compare /srv/nas/photos/2019/two.jpg --with /srv/nas/backup',3,X'928978C78A22CE8EE03F365003200FC7');
INSERT INTO "finding" VALUES(2,1,10,X'323032302F726F7474656E2E6A7067','silent_rewrite','ctime_moved','open',1795761037,1795761037,NULL,NULL,NULL,'[0]',65536,'[[0, 2000]]',2,'the bytes changed, the time of modification did not, the inode was touched: damaged, or rewritten by a program that put the time of modification back',7,'','put the good bytes back from the copy','integrity repair /srv/nas/photos/2020/rotten.jpg --from /srv/nas/backup',7,X'E7892D0CA26A21093E5EDF62DCA2E5E0');
CREATE TABLE folder (
	id INTEGER NOT NULL, 
	root_id INTEGER NOT NULL, 
	path BLOB NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (root_id, path), 
	FOREIGN KEY(root_id) REFERENCES root (id)
)
 STRICT

;
INSERT INTO "folder" VALUES(1,1,X'32303230');
INSERT INTO "folder" VALUES(2,1,X'323032302F726177');
INSERT INTO "folder" VALUES(3,1,X'32303139');
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
	PRIMARY KEY (id), 
	FOREIGN KEY(root_id) REFERENCES root (id)
)
 STRICT

;
INSERT INTO "history" VALUES(1,1,5,X'323032302F64656C657465642E747874',10,1795674625000000000,X'4D99A4382032E4BB38D0370083EC1FB2',X'DAA98B38E6D1084F8A836A923BB9916A',NULL,1,1795761026,'recorded',1795761030,'deleted','never said',X'E37C2F5661B930F8',NULL,0,1795761025419881784,761903,X'537EEF710E4898F53225E8DF00CEF207');
INSERT INTO "history" VALUES(2,1,6,X'323032302F6564697465642E747874',5,1795674625000000000,X'8B04D5E3775D298E78455EFC5CA404D5',X'C9CBC8166703D7B011D9552B2B5188A5',NULL,1,1795761026,'recorded',1795761030,'edited',NULL,X'C04D5D98CBC41031',NULL,0,1795761025419849386,761902,X'8C58663FD8F23B1A0A3D2813A75BFFA0');
INSERT INTO "history" VALUES(3,1,6,X'323032302F6564697465642E747874',6,1795674725000000000,X'A9F0E61A137D86AA9DB53465E0801612',X'885B08846244FEB4E13DCB4BE2A53071',NULL,2,1795761030,'edited',1795761039,'accepted','mine',X'0AF9C9E1F216A73E',NULL,0,1795761029800089383,761902,X'6779773DEA44ED16CA28699823C485EB');
CREATE TABLE meta (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
	PRIMARY KEY ("key")
)
 WITHOUT ROWID,
 STRICT

;
INSERT INTO "meta" VALUES('created_at','1795761026',X'679EF7561B2DB3FBE1836FC0AFC4F95B');
INSERT INTO "meta" VALUES('last_backup_at','1795761026',X'57E76DAC1DD1D0C40227217FA3F2F0DB');
INSERT INTO "meta" VALUES('next_file_id','13',X'E033322B538767EF4A3D6165669D86D8');
INSERT INTO "meta" VALUES('seal_check','ddd443c59b135b4d779d77cdea9b3a7c',X'96D3518DD6DA0EA52760FF731BBD4624');
INSERT INTO "meta" VALUES('uuid','75d7b801-7855-420f-bf4e-bdd9eecceab8',X'53B51ED6A0B03B0882AB1B0C2C86C259');
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
INSERT INTO "root" VALUES(1,X'BAB857D3696BC7C0F6AE04F1AB9ECFD6',X'2F7372762F6E61732F70686F746F73','uuid:5ec71dc2-f7bb-4541-8ad0-90661935754f',761870,'ext4','active',NULL,1795761026,11,X'55F7F90CC26F6EBA32C6B56DC79D1AC8',X'93374CDAB8D79DFFBB2048B30B9DEC1D');
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
	PRIMARY KEY (id), 
	FOREIGN KEY(root_id) REFERENCES root (id), 
	FOREIGN KEY(boot_id) REFERENCES boot (id)
)
 STRICT

;
INSERT INTO "run" VALUES(1,1,'scan',1795761026,1795761026,'clean',1,2040,0,11,0,0,0,0,0,0,0,0,774629,0,0,2.02371913997922092676e-01,NULL,NULL,11,X'332C926DD7242B1DFEC6CD1EC7314571');
INSERT INTO "run" VALUES(2,1,'scan',1795761028,1795761028,'clean',1,2079,0,0,0,0,0,0,0,0,11,0,0,0,0,8.17876190012611914426e-02,NULL,NULL,11,X'73833D7907C2CA6088827BCA598CA880');
INSERT INTO "run" VALUES(3,1,'compare',1795761028,1795761028,'findings',1,2079,10,0,0,1,0,0,0,0,0,0,777029,1,1,2.11109471998497610911e-01,NULL,'/srv/nas/backup',11,X'CEA48FB6A5F4C065E4E7FBC4765B2793');
INSERT INTO "run" VALUES(4,1,'scrub',1795761029,1795761029,'clean',1,2132,11,0,0,0,0,0,0,0,0,0,774629,0,1,1.01620657998864771798e-01,NULL,NULL,11,X'D44109C0C99677E72D0C02DBA9F66CB2');
INSERT INTO "run" VALUES(5,1,'scan',1795761030,1795761030,'clean',1,2334,0,1,1,0,1,0,0,0,9,1,9,0,1,2.27236052000080235302e-01,NULL,NULL,12,X'CE5D7772FA6A5CD813E4C2CAB934C4A3');
INSERT INTO "run" VALUES(6,1,'scrub',1795761032,1795761032,'clean',1,2362,11,0,0,0,0,0,0,0,0,0,774623,0,1,3.46182569999655243009e-01,NULL,NULL,12,X'ECA2DABCBAA5F741643CC2719E812842');
INSERT INTO "run" VALUES(7,1,'scrub',1795761033,1795761037,'findings',1,2395,10,0,0,1,0,0,0,0,0,0,780623,1,2,4.28677362500093295238e+00,NULL,NULL,12,X'C5435A967B70CD19CB049EFC5EC321A9');
INSERT INTO "run" VALUES(8,1,'scan',1795761042,1795761042,'clean',1,3068,0,0,0,1,0,0,0,0,10,0,2100,0,2,1.11693963997822720557e-01,NULL,NULL,12,X'4B57F1CC04FED6A603FDD1AB391808E7');
INSERT INTO "run" VALUES(9,1,'scan',1795761043,1795761043,'clean',1,3119,0,0,0,1,0,0,0,0,10,0,0,0,2,1.10737225997581845149e-01,NULL,NULL,12,X'ABEF8555C0D6BCF7575B502BD382E019');
CREATE TABLE schedule_run (
	id INTEGER NOT NULL, 
	schedule TEXT NOT NULL, 
	root_id INTEGER, 
	due_at INTEGER, 
	started_at INTEGER NOT NULL, 
	finished_at INTEGER, 
	outcome TEXT, 
	seal BLOB DEFAULT (x'00000000000000000000000000000000') NOT NULL CHECK (length(seal) = 16), 
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
CREATE INDEX history_file ON history (file_id);
CREATE INDEX history_replaced ON history (root_id, replaced_at);
CREATE INDEX history_deleted ON history (root_id, size_bytes, md5) WHERE replaced_because = 'deleted';
CREATE INDEX history_path ON history (root_id, path);
CREATE INDEX history_inode ON history (inode) WHERE inode IS NOT NULL;
CREATE INDEX history_deleted_time ON history (root_id, size_bytes, mtime_ns) WHERE replaced_because = 'deleted';
CREATE INDEX file_inode ON file (inode);
CREATE UNIQUE INDEX finding_unresolved ON finding (root_id, kind, path, copy) WHERE state != 'resolved';
CREATE INDEX finding_file ON finding (file_id);
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
CREATE TRIGGER "finding_sealed" AFTER INSERT ON "finding" BEGIN UPDATE "finding" SET seal = row_seal('finding', NEW."id", NEW."root_id", NEW."file_id", NEW."path", CAST(NEW."kind" AS BLOB), CAST(NEW."certainty" AS BLOB), CAST(NEW."state" AS BLOB), NEW."opened_at", NEW."updated_at", NEW."resolved_at", CAST(NEW."resolution" AS BLOB), NEW."muted_until", CAST(NEW."blocks" AS BLOB), NEW."block_size_bytes", CAST(NEW."ranges" AS BLOB), NEW."confirmed_reads", CAST(NEW."message" AS BLOB), NEW."run_id", CAST(NEW."copy" AS BLOB), CAST(NEW."step" AS BLOB), CAST(NEW."command" AS BLOB), NEW."opened_by") WHERE "id" = NEW."id"; END;
CREATE TRIGGER "finding_resealed" AFTER UPDATE OF "id", "root_id", "file_id", "path", "kind", "certainty", "state", "opened_at", "updated_at", "resolved_at", "resolution", "muted_until", "blocks", "block_size_bytes", "ranges", "confirmed_reads", "message", "run_id", "copy", "step", "command", "opened_by" ON "finding" WHEN OLD.seal IS row_seal('finding', OLD."id", OLD."root_id", OLD."file_id", OLD."path", CAST(OLD."kind" AS BLOB), CAST(OLD."certainty" AS BLOB), CAST(OLD."state" AS BLOB), OLD."opened_at", OLD."updated_at", OLD."resolved_at", CAST(OLD."resolution" AS BLOB), OLD."muted_until", CAST(OLD."blocks" AS BLOB), OLD."block_size_bytes", CAST(OLD."ranges" AS BLOB), OLD."confirmed_reads", CAST(OLD."message" AS BLOB), OLD."run_id", CAST(OLD."copy" AS BLOB), CAST(OLD."step" AS BLOB), CAST(OLD."command" AS BLOB), OLD."opened_by") BEGIN UPDATE "finding" SET seal = row_seal('finding', NEW."id", NEW."root_id", NEW."file_id", NEW."path", CAST(NEW."kind" AS BLOB), CAST(NEW."certainty" AS BLOB), CAST(NEW."state" AS BLOB), NEW."opened_at", NEW."updated_at", NEW."resolved_at", CAST(NEW."resolution" AS BLOB), NEW."muted_until", CAST(NEW."blocks" AS BLOB), NEW."block_size_bytes", CAST(NEW."ranges" AS BLOB), NEW."confirmed_reads", CAST(NEW."message" AS BLOB), NEW."run_id", CAST(NEW."copy" AS BLOB), CAST(NEW."step" AS BLOB), CAST(NEW."command" AS BLOB), NEW."opened_by") WHERE "id" = NEW."id"; END;
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
CREATE TRIGGER "file_resealed" AFTER UPDATE OF "id", "seal", "recorded_at", "reason", "verified_at", "read_how", "boot_id", "is_suspect", "is_frozen" ON "file" WHEN NEW.state_seal IS OLD.state_seal AND OLD.state_seal IS row_seal('file', OLD."id", OLD."seal", OLD."recorded_at", CAST(OLD."reason" AS BLOB), OLD."verified_at", CAST(OLD."read_how" AS BLOB), OLD."boot_id", OLD."is_suspect", OLD."is_frozen") BEGIN UPDATE "file" SET state_seal = row_seal('file', NEW."id", NEW."seal", NEW."recorded_at", CAST(NEW."reason" AS BLOB), NEW."verified_at", CAST(NEW."read_how" AS BLOB), NEW."boot_id", NEW."is_suspect", NEW."is_frozen") WHERE "id" = NEW."id"; END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('finding',2);
COMMIT;
