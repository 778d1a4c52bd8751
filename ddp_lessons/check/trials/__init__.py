"""What the exercises are tried with: models, data, checkpoints, job scripts; and the signs of known mistakes."""
