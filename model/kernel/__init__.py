"""The kernel: a Program and one of its checks as a finite world in the core IR."""
