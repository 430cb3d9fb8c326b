"""The agent of a rented container."""
