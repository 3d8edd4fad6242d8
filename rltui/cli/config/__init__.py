"""`rltui config VERB`: one module a verb."""

ABOUT = "Configs: TOML files of which every key is explained by `rltui explain`. Each verb but edit takes --json."

VERBS = {
    "show": ("rltui.cli.config.show", "every value a config resolves to, and where it comes from"),
    "get": ("rltui.cli.config.get", "one value, as TOML"),
    "set": ("rltui.cli.config.set", "change keys in the file; comments and everything else stay"),
    "edit": ("rltui.cli.config.edit", "open the editor: every key, its help, what is wrong, one-key fixes"),
    "diff": ("rltui.cli.config.diff", "what differs between two configs or runs"),
    "new": ("rltui.cli.config.new", "begin with a sample, or with a copy of a run's config"),
    "migrate": ("rltui.cli.config.migrate", "write old spellings in their new form"),
    "schema": ("rltui.cli.config.schema", "the JSON Schema, for editors that complete and check"),
}
EXAMPLES = (
    "rltui config new demo --out my.toml",
    "rltui config set my.toml training.learning_rate 5e-5",
    "rltui config show my.toml --origin",
)
