"""Mistakes in distributed programs, each with what a message about it must say; and what is said of them."""
