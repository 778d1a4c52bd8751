"""The exercises on messages and collectives."""
