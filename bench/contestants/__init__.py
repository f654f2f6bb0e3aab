"""One module per contestant, each run in an environment of its own by `bench.worker`.

Every module has an `opened()` that prepares everything a program would prepare once, and gives ways to call the same
tool by name: `add` returns a sum at once, `nap` sleeps first.
"""
