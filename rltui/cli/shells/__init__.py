"""What a shell needs to complete `rltui`: the grammar of its verbs, and a script for each shell made of it."""
