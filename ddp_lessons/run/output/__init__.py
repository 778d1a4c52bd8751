"""What ranks print and show, and where the learner sees it."""
