"""The whole plane from one seed: client writes and faults, then peace, and then it must have settled."""
