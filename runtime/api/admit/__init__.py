"""Admission: plugins that change or refuse a write between its decoding and the store."""
