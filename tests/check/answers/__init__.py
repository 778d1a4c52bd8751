"""Answers of learners, by the module of their exercise."""
