"""Persistent ranks, which stay alive between cells, and `%%ranks`."""
