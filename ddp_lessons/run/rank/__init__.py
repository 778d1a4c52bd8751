"""Inside a rank: start, run functions, report results. Nothing of the launcher is imported here."""
