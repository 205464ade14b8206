"""Questions of placement."""
