"""Recorded calls before other rules: what is known of each, what is not, and what would have been decided."""
