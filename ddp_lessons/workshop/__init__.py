"""For instructors: is each machine ready, what progress has each learner made, one machine for many learners."""
