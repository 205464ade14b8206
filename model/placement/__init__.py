"""Placement: what the scheduler's filters and scores say of a pod and a node, once, without I/O, clock or chance."""
