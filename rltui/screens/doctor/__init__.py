"""Screen 7: what is wrong with the run that is open."""
