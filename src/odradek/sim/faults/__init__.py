"""What is done to a world: each fault by name, what it hits and when it ends."""
