"""What every picture is made of: a figure with a text, boxes, labels and lines."""
