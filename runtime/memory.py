"""Memory of the process: large blocks go back to the machine when they are freed."""

from __future__ import annotations

import ctypes

LARGE = 512 * 1024
"""Bytes. Smaller ones (pieces of lists, requests as they usually are) are reused, which is cheaper."""
_MMAP_THRESHOLD = -3
"""M_MMAP_THRESHOLD of glibc's mallopt(3)."""


def return_large_blocks() -> bool:
    """Has blocks from `LARGE` on given back as soon as they are free; False where the C library cannot.

    glibc does that from 128 kB on, until it sees such a block freed: then it begins to keep blocks of that size, among
    small ones that stay. After 120 objects of 800 kB were made and deleted, 67 MB were held that way.
    """
    try:
        # the library that this process has: nothing is looked for on the disk
        return bool(ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, LARGE))
    except (OSError, AttributeError, TypeError):
        return False
