"""What ranks print and display, and where the learner sees it."""
