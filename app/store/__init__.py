"""What is kept on disk: the conversations."""
