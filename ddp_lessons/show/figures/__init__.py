"""Figures of messages, timelines and steps: data first, one renderer in the browser, and a still of the same data."""
