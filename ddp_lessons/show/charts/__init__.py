"""Figures with axes, drawn by matplotlib."""
