"""Faults put into real runs at random points, and a checker that reads what is left from the raw files."""
