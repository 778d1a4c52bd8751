"""The data of a run: results, events, colors. It needs no running process."""
