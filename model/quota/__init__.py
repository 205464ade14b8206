"""What quotas count: one meaning for admission and for the controller that counts again."""
