"""Pack the course for machines without a network: wheels, digits, lessons and an installer, in one folder.

python -m offline            what `make offline` runs
carried/                     goes into the folder as it is; all of it runs on the participant's bare Python
"""
