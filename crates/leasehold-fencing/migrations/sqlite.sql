-- One row for each resource that a fence has seen: the highest token, and whose it was.
CREATE TABLE IF NOT EXISTS fence_mark (
    resource TEXT NOT NULL PRIMARY KEY COLLATE BINARY,
    seq INTEGER NOT NULL,
    holder BLOB NOT NULL CHECK (length(holder) = 16)
) WITHOUT ROWID
