"""Pack the course for machines without a network: wheels, digits, lessons and an installer, in one folder.

python -m offline            what `make offline` runs
carried/                     copied into the folder unchanged; it runs on the participant's plain Python
"""
