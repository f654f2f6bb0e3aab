"""Tools in the formats of model providers: a surface out, calls in, results out. Does no input or output of its own."""
