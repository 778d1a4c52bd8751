"""The steps of install.py on a participant's machine: standard library only, and it writes nothing into this folder."""
