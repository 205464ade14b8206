"""The scheduler: binds pods to nodes by the rules of `model/placement`."""
