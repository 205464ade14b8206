"""The API server: Kubernetes' HTTP interface over the store, gate by gate."""
