"""What each verb does once the gates have let a request through."""
