"""What the lessons build, in plain PyTorch that also runs under torchrun and on a cluster."""
