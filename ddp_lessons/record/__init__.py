"""What a run leaves behind: results, events, colors. It needs no living process."""
