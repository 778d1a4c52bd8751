"""Programs as a learner writes them, each with one mistake that torch answers with silence, or worse."""
