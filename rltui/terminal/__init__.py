"""What the terminal can do, and what we ask of it."""
