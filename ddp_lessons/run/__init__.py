"""From a cell to N ranks and back."""
