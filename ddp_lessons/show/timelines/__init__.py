"""Timelines: a lane for each rank, with its calls."""
