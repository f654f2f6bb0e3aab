"""The story that `agenttool demo` tells: one file per chapter, each run against the real code."""
