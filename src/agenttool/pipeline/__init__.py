"""The path of one call: start at `run`."""
