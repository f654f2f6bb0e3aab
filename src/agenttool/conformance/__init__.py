"""Requirements of the standards, their coverage by tests, and the validator of exported records."""
