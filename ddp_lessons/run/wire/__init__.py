"""What the notebook and its ranks say to each other, and over what."""
