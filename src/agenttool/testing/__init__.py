"""What authors of adapters and stores need to test them."""
