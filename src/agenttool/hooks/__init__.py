"""Hooks: who applies, what they said, and what their words change."""
