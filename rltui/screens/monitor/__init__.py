"""Screen 4: one run. The frame with its tabs is in `screen`, a file a tab beside it."""
