"""For those who write lessons: run and store them with the smallest diff, and begin new ones. No learner needs it."""
