"""Taking very many tools in, each in a fresh process: ours, and a peer's in an environment of its own."""
