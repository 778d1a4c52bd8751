"""How an exercise is tried: its trials on ranks, what may travel, what is wrong, and the report."""
