"""Inside a rank: become one, run functions, say what came of it. Nothing of the launcher is imported here."""
