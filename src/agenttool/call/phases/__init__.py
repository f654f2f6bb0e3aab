"""The twelve phases, one file each, named as in the standard."""
