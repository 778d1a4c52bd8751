"""Experiments that need an NVIDIA GPU. `make gpu` runs them, checks what they measure, and records it."""
