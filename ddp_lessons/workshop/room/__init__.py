"""One machine for many learners: `python -m ddp_lessons room` starts a JupyterLab for each."""
