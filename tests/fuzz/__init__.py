"""Random and damaged input to every reader: no traceback, no hang, nothing invalid accepted.

What is tested beside its own code with hypothesis already (parsers, edits, rules) is not tested again: here whole
bodies, files and terminals are mutated and go the whole way. `python -m tests.fuzz --seconds N` runs long.
"""
