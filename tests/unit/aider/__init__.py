"""What runs aider."""
