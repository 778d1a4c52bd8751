"""What went from rank to rank: before and after, message by message, round a ring, in all."""
