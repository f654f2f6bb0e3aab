"""What the commands about the journal share: its file, one call out of it, and how both are drawn."""
