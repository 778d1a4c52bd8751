"""The site of the lessons and docs, and the slides."""
