"""Implementations of the store ports: in memory, in SQLite, and as files."""
