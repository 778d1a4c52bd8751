"""For authors: run and store lessons with the smallest diff. A new lesson is a copy of `example/`."""
