"""The SQLite store: one file that several processes share, with one writer at a time."""
