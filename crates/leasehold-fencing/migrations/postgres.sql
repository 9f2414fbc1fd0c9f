-- One row for each resource that a fence has seen: the highest token, and whose it was.
-- COLLATE "C": names are compared byte by byte, whatever the database's collation.
CREATE TABLE IF NOT EXISTS fence_mark (
    resource TEXT COLLATE "C" PRIMARY KEY CHECK (octet_length(resource) <= 1024),
    seq BIGINT NOT NULL,
    holder BYTEA NOT NULL CHECK (octet_length(holder) = 16)
)
