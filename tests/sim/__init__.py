"""The simulation of the whole plane: runs, parts, planted bugs."""
