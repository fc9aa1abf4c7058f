"""The tables of a cluster, in PostgreSQL.  Text alone: `cluster_store` executes it.

The sums of a node (`reserved_bytes`, `sessions`) are kept by a trigger, so that no statement can forget them.
A session has a node exactly while it is starting or running: the table itself refuses anything else.
"""

from __future__ import annotations

VERSION = 1
CHANNEL = "holdfast_cluster"
LOCK = 0x686F6C64
"""The advisory lock of whichever process makes the tables."""

DEFINITIONS = """
CREATE TABLE IF NOT EXISTS holdfast_cluster (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    version integer NOT NULL,
    ttl_s double precision NOT NULL,
    beat_s double precision NOT NULL,
    margin_s double precision NOT NULL,
    reign bigint NOT NULL DEFAULT 1,
    reign_began timestamptz NOT NULL DEFAULT '-infinity',
    timeline text NOT NULL
);
CREATE TABLE IF NOT EXISTS holdfast_machines (
    digest text PRIMARY KEY,
    here jsonb NOT NULL
);
CREATE TABLE IF NOT EXISTS holdfast_nodes (
    id text PRIMARY KEY,
    incarnation bigint NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    state text NOT NULL CHECK (state IN ('ready', 'draining', 'lost')),
    boot text NOT NULL,
    address text NOT NULL,
    memory_bytes bigint NOT NULL,
    reserved_bytes bigint NOT NULL DEFAULT 0,
    sessions integer NOT NULL DEFAULT 0,
    most_sessions integer NOT NULL,
    machine text NOT NULL REFERENCES holdfast_machines,
    version text NOT NULL,
    seen timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS holdfast_sessions (
    id text PRIMARY KEY,
    name text NOT NULL,
    state text NOT NULL CHECK (
        state IN ('starting', 'running', 'asleep', 'waiting_for_node', 'lost', 'removed')),
    node text REFERENCES holdfast_nodes,
    last_node text,
    taken boolean NOT NULL DEFAULT false,
    epoch bigint NOT NULL DEFAULT 0,
    ran boolean NOT NULL DEFAULT false,
    memory_bytes bigint NOT NULL,
    options jsonb NOT NULL,
    durable jsonb NOT NULL,
    needs jsonb NOT NULL,
    key text,
    reason text NOT NULL DEFAULT '',
    failed_nodes text[] NOT NULL DEFAULT '{}',
    copy_number bigint NOT NULL DEFAULT 0,
    recovery jsonb,
    tried timestamptz NOT NULL DEFAULT '-infinity',
    CHECK ((node IS NOT NULL) = (state IN ('starting', 'running')))
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX IF NOT EXISTS holdfast_session_name ON holdfast_sessions (name) WHERE state <> 'removed';
CREATE UNIQUE INDEX IF NOT EXISTS holdfast_session_key ON holdfast_sessions (key) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS holdfast_session_node ON holdfast_sessions (node) WHERE node IS NOT NULL;
CREATE INDEX IF NOT EXISTS holdfast_session_waiting ON holdfast_sessions (tried)
    WHERE state = 'waiting_for_node';
CREATE TABLE IF NOT EXISTS holdfast_copies (
    session text PRIMARY KEY REFERENCES holdfast_sessions,
    epoch bigint NOT NULL,
    number bigint NOT NULL,
    snapshot text NOT NULL,
    reference text NOT NULL,
    journal_seq bigint NOT NULL,
    size_bytes bigint NOT NULL,
    needs jsonb NOT NULL,
    captured timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS holdfast_notes (
    session text NOT NULL REFERENCES holdfast_sessions,
    seq bigint NOT NULL,
    text text NOT NULL,
    key text,
    PRIMARY KEY (session, seq)
);
CREATE TABLE IF NOT EXISTS holdfast_events (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session text NOT NULL,
    kind text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    details jsonb NOT NULL
);
CREATE INDEX IF NOT EXISTS holdfast_event_session ON holdfast_events (session, number);
CREATE OR REPLACE FUNCTION holdfast_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.node IS NOT DISTINCT FROM NEW.node
        AND OLD.memory_bytes = NEW.memory_bytes THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.node IS NOT NULL THEN
        UPDATE holdfast_nodes SET reserved_bytes = reserved_bytes - OLD.memory_bytes, sessions = sessions - 1
        WHERE id = OLD.node;
    END IF;
    IF NEW.node IS NOT NULL THEN
        UPDATE holdfast_nodes SET reserved_bytes = reserved_bytes + NEW.memory_bytes, sessions = sessions + 1
        WHERE id = NEW.node;
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS holdfast_counted ON holdfast_sessions;
CREATE TRIGGER holdfast_counted AFTER INSERT OR UPDATE OF node, memory_bytes ON holdfast_sessions
    FOR EACH ROW EXECUTE FUNCTION holdfast_count();
"""
