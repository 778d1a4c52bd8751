"""Ranks on other nodes: an agent there forks them, and everything else stays as on this machine."""
