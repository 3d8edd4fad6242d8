"""Screen 3: what a run needs, and the key that starts it."""
