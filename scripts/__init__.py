"""Trainings that are started from a terminal: a series, each the one before plus one idea. README.md names them."""
