"""The exercises on backends, nodes and job scripts."""
