"""What went from rank to rank: before and after, around a ring, in all."""
