"""Tools for authors: run lessons and store them with small diffs. To write a new lesson, copy `example/`."""
