"""A machine for a whole room: `python -m ddp_lessons room` starts a JupyterLab for each learner."""
