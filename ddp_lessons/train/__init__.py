"""What the lessons build: plain PyTorch that also runs under torchrun and on a cluster."""
