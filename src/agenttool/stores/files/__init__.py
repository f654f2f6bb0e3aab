"""Bytes of large results: in a folder, or in any object store."""
