"""The command line: decode the words, call a room, show the answer."""
