"""Whether pods can be placed: a placement that the scheduler's own filters accept, or why there is none."""
