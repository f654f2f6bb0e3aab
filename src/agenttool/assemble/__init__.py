"""Functions that build the parts of a runtime from options and settings."""
