"""The messages between the notebook and its ranks, and their channel."""
