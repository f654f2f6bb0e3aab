"""What happened: the one room with a pen."""
