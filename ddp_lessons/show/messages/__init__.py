"""Figures of what the ranks send to each other and wait for."""
