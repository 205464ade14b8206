"""Backends of the core IR: each prints or evaluates guarded updates, and knows nothing of Kubernetes."""
