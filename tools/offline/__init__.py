"""Pack the course for machines without a network: one folder with all wheels, including the course's, and install.py.

python -m tools.offline      what `make offline` runs
install.py, READ-ME.txt      copied into the folder; install.py runs on the participant's plain Python
"""
