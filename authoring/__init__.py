"""For authors: run and store lessons with the smallest diff, and create new ones. Learners don't need it."""
