"""The journal: facts are appended here, and replayed as events and records."""
