"""`rltui completion SHELL`: the script by which a shell completes verbs, options, runs, configs and keys.

It is printed once, into the shell's own files: completing then starts no Python.
"""

from __future__ import annotations

import argparse
import sys

from rltui.cli.output import OK, add_data_options, add_examples, emit, put
from rltui.cli.shells.bash_zsh import bash, zsh
from rltui.cli.shells.fish import fish
from rltui.cli.shells.grammar import config_keys, grammar

SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
_INSTALL = """\
install, and again after an update:
  bash  rltui completion bash > ~/.local/share/bash-completion/completions/rltui
        or in ~/.bashrc: eval "$(rltui completion bash)"
  zsh   rltui completion zsh > DIR/_rltui, where DIR is a folder of $fpath
        or in ~/.zshrc, after compinit: eval "$(rltui completion zsh)"
  fish  rltui completion fish > ~/.config/fish/completions/rltui.fish
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=sorted(SCRIPTS), help="for which shell")
    add_data_options(parser)
    add_examples(
        parser,
        "rltui completion bash",
        "rltui completion fish > ~/.config/fish/completions/rltui.fish",
        after=_INSTALL,
    )


def run(args: argparse.Namespace) -> int:
    script = SCRIPTS[args.shell](grammar(), config_keys())
    emit({"shell": args.shell, "script": script}, as_json=args.json, out=args.out)
    if not args.json:
        put(script, sys.stdout)
    return OK
