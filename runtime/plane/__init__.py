"""The whole plane in one process: API server, controllers from their specs, scheduler, nodes."""
