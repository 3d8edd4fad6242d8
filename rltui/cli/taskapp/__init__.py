"""`rltui taskapp VERB`: one module a verb."""

ABOUT = "Task apps: the services that play episodes and score them. Each verb takes --json."

VERBS = {
    "list": ("rltui.cli.taskapp.list", "the task apps that need no code"),
    "serve": ("rltui.cli.taskapp.serve", "serve one until Ctrl-C"),
}
EXAMPLES = ("rltui taskapp list", "rltui taskapp serve facts --port 9001")
