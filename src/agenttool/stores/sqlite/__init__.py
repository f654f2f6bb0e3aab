"""The embedded store: one file, one writer at a time, as many processes as like to share it."""
