"""What is wrong with a run, and which key to change: rules over its record. No I/O below `checkup`, no interface."""
