"""The last task of the course: a learner's training script, judged as a whole from outside."""
