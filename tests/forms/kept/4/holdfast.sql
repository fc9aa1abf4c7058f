BEGIN TRANSACTION;
CREATE TABLE branches (
	session_id VARCHAR NOT NULL, 
	parent_session_id VARCHAR NOT NULL, 
	snapshot_id VARCHAR NOT NULL, 
	position BIGINT NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY (session_id)
);
INSERT INTO "branches" VALUES('aaaaaaaaaaaa','ffffffffffff','bbbbbbbbbbbb',2,2.5);
CREATE TABLE entries (
	id INTEGER NOT NULL, 
	session_id VARCHAR NOT NULL, 
	seq BIGINT NOT NULL, 
	host BOOLEAN NOT NULL, 
	at FLOAT NOT NULL, 
	kind VARCHAR NOT NULL, 
	actor VARCHAR, 
	body TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "entries" VALUES(1,'aaaaaaaaaaaa',2,1,2.5,'taken','agent','{"label":"before"}');
CREATE TABLE operations (
	id VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	session_id VARCHAR, 
	snapshot_id VARCHAR, 
	state VARCHAR NOT NULL, 
	owner_pid INTEGER NOT NULL, 
	owner_start VARCHAR NOT NULL, 
	started_at VARCHAR NOT NULL, 
	ended_at VARCHAR, 
	details JSON NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "operations" VALUES('eeeeeeeeeeee','snapshot','aaaaaaaaaaaa','bbbbbbbbbbbb','intent',7,'boot:1','2026-01-02T03:04:05.000678+00:00','2026-01-02T03:04:05.000678+00:00','{"session": "aaaaaaaaaaaa"}');
CREATE TABLE sessions (
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	image VARCHAR NOT NULL, 
	container_id VARCHAR, 
	parent_snapshot_id VARCHAR, 
	generation INTEGER NOT NULL, 
	options JSON NOT NULL, 
	created_at VARCHAR NOT NULL, 
	details JSON DEFAULT '{}' NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "sessions" VALUES('aaaaaaaaaaaa','work','running','sha256:1111111111111111111111111111111111111111111111111111111111111111','dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd','bbbbbbbbbbbb',2,'{"memory": 1073741824, "env": {"KEY": "\u00fc"}}','2026-01-02T03:04:05.000678+00:00','{"hooks": ["failed"], "refused": {"example.org:443": 1}}');
CREATE TABLE snapshots (
	id VARCHAR NOT NULL, 
	label VARCHAR, 
	kind VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	session_id VARCHAR NOT NULL, 
	parent_snapshot_id VARCHAR, 
	image_id VARCHAR, 
	bytes BIGINT NOT NULL, 
	created_at VARCHAR NOT NULL, 
	details JSON NOT NULL, 
	pinned BOOLEAN DEFAULT '0' NOT NULL, 
	reason TEXT, 
	PRIMARY KEY (id), 
	FOREIGN KEY(session_id) REFERENCES sessions (id)
);
INSERT INTO "snapshots" VALUES('bbbbbbbbbbbb','before','live','ready','aaaaaaaaaaaa','cccccccccccc','sha256:1111111111111111111111111111111111111111111111111111111111111111',4096,'2026-01-02T03:04:05.000678+00:00','{"generation": 2, "moment": {"journal_seq": 2, "at": 2.5, "offsets": {"main": 7}}}',1,'before the change');
CREATE TABLE waiting (
	id VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	image VARCHAR NOT NULL, 
	options JSON NOT NULL, 
	kernel BOOLEAN NOT NULL, 
	container_id VARCHAR NOT NULL, 
	init_pid INTEGER NOT NULL, 
	init_start VARCHAR NOT NULL, 
	made_at VARCHAR NOT NULL, 
	PRIMARY KEY (id)
);
CREATE INDEX entry_place ON entries (session_id, host, seq);
CREATE INDEX operation_state ON operations (state);
CREATE INDEX snapshot_session ON snapshots (session_id);
CREATE UNIQUE INDEX session_name ON sessions (name) WHERE state != 'removed';
CREATE UNIQUE INDEX snapshot_label ON snapshots (label);
COMMIT;
PRAGMA user_version = 5;
