"""The exercises on training with several ranks."""
