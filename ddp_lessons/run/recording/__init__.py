"""Inside a rank: see every call of torch.distributed, and note it."""
