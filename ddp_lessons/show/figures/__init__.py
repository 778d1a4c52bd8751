"""What all figures are drawn with, and the player that moves them in a page."""
