"""One module per contestant, each run in an environment of its own by `bench.worker`.

Every module has an async context manager `opened()`. It prepares what a program prepares once, and yields calls of the
same tools by name: `add` returns a sum at once, `nap` sleeps first.
"""
