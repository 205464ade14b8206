"""What dashpot promises, one fact a test."""
