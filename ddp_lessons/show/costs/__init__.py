"""What communication costs, by a model and as measured."""
