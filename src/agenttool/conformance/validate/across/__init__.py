"""The second layer, for a whole set of files: what no record can be asked alone."""
