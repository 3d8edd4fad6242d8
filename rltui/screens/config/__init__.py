"""Screen 2: the config editor."""
