"""The debugger of the ranks: pdb runs in each rank, and its prompt is in the notebook."""
