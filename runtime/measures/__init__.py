"""The metrics APIs of a simulated plane: metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io."""
