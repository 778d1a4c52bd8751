"""Inside a rank: observe and record every call of torch.distributed."""
