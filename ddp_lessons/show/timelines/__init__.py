"""Who called what when: a lane for each rank."""
