"""Screen 5: a smoke test of a task app, live."""
