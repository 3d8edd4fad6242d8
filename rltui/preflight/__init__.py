"""What is looked at before a run is started: small checks, each with its time, verdict and fix. Nothing costs money."""
