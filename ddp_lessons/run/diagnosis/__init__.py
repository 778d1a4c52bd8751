"""What went wrong: who waits for whom, which rule was broken, and the sentences that say so."""
