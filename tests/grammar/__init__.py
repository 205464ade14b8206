"""What the grammar promises: every text becomes a tree or messages, every message has a place and a fix."""
