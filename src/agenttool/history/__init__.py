"""The calls that a journal recorded: list them, read one, count them."""
