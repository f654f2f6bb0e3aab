"""Functions of this process as tools."""
