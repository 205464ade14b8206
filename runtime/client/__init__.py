"""Clients of a Kubernetes API on asyncio: REST, informers, work queues, leader election, events.

Each runs over a real connection or in process, on real or on virtual time.
"""
