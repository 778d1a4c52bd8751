"""Explain a plain script that launch() did not start."""
