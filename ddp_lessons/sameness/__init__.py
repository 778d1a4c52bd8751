"""Is training on several ranks the same as on one? `same_as_one` compares them step by step."""

RANDOM = ("dropout", "augmentation")  # what may be said to be random by design
