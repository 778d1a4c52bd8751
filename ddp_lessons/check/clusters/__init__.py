"""The exercises on backends, machines and job scripts."""
