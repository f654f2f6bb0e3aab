"""Provider formats: a surface becomes a request, a reply becomes calls, results become messages. Does no I/O."""
