"""Training scripts for the terminal: a series in which each adds one idea. docs/package.md lists them."""
