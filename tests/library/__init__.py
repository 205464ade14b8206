"""Controllers of the library, run against an API server."""
