"""Ranks that stay between cells, and `%%ranks`."""
