"""Python functions of this process as tools."""
