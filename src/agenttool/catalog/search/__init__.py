"""Finding a tool by what it is called or by what it does, among those that a surface lets one know of."""
