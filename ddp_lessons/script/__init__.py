"""From a cell to a script: a notebook's function, with everything it needs, in a file that torchrun runs."""
