"""The `agenttool` command line."""
