"""Hooks that are external commands: JSON in, JSON out."""
