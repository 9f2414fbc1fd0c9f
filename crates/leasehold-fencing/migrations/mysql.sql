-- One row for each resource that a fence has seen: the highest token, and whose it was.
-- VARBINARY and BINARY: text collations of MySQL fold case and ignore spaces at the end.
-- InnoDB, by name: a table without transactions would protect nothing.
CREATE TABLE IF NOT EXISTS fence_mark (
    resource VARBINARY(1024) NOT NULL PRIMARY KEY,
    seq BIGINT NOT NULL,
    holder BINARY(16) NOT NULL
) ENGINE = InnoDB
