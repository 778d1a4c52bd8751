"""How an exercise is judged: its trials on ranks, its traffic, what is wrong, and the report."""
