"""What a user asks, a folder or file a command."""
