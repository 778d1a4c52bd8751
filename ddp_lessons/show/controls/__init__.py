"""Explorers: a picture with controls, as plain data and as ipywidgets."""
