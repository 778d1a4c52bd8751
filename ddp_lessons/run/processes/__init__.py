"""Where new processes come from."""
