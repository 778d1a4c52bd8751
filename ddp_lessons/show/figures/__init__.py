"""The drawing tools of all figures, and the player that animates them in a page."""
