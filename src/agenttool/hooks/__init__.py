"""Hooks: definitions, execution and replies."""
