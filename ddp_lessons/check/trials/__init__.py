"""What single exercises are tried with: models, data, checkpoints, job scripts; and signs of known mistakes."""
