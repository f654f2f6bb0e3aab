"""What the core asks of the world: Protocols, and the few values that cross them."""
