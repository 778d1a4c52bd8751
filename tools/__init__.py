"""What makes the course: lessons, site, wheels, and measurements. Learners don't need it."""
