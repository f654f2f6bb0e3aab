"""Phases 1 to 8, named as in the standard: input (1 to 5), permission, schedule, execute. `completion` has 9 to 12."""
