"""Simulated nodes: Node objects with leases, and pods that start, become ready, end and go, though nothing runs."""
