"""What install.py does on a participant's machine: Python's own library only, and nothing is written in this folder."""
