"""Figures of programs and machines outside a launch."""
