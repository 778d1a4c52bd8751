"""What became of the models and the data: losses, weights, fingerprints, samples, memory."""
