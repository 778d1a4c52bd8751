"""Where fresh processes come from."""
