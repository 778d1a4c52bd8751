"""What went wrong: which rank waits for which, which rule was broken, and how a message says it."""
