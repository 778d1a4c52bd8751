"""Figures of the models and the data: fingerprints, samples, memory, and pipelines."""
