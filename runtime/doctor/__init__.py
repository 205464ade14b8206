"""Examinations of a cluster from outside, through its API alone: what makes it slow or fragile."""
