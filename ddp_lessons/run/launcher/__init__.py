"""In the notebook: follow one call on all ranks, from its arguments to its end."""
