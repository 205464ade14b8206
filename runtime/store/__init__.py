"""Revisions on a disk or in memory: compare-and-swap, reads of the past, watch, leases, compaction, quota."""
