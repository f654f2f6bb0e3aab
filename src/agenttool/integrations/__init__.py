"""Governed tools for agent frameworks. Each module imports its framework when it is used."""
