"""The script for fish: a line for each verb, option and argument, with its help beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rltui.cli.shells.grammar import CONFIG, FILE, FOLDER, KEY, PAIR, RUN, Argument, Option, Verb

_FUNCTIONS = r"""# fish completion for rltui
function __rltui_at
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    test "$words[2..$last]" = "$argv"
end

function __rltui_only
    set -l words (commandline -opc)
    test "$words[2..]" = "$argv"
end

function __rltui_no_verb
    set -l words (commandline -opc)
    not set -q words[2]; or string match -q -- '-*' $words[2]
end

function __rltui_runs
    set -l folder runs
    set -q RLTUI__LOGGING__RUNS_DIR; and set folder $RLTUI__LOGGING__RUNS_DIR
    set -l words (commandline -opc)
    set -l at (contains -i -- --runs-dir $words); and set folder $words[(math $at + 1)]
    set folder (string replace -r '^~/' "$HOME/" -- $folder)
    for path in $folder/*/
        set -l name (string split -- / $path)[-2]
        if string match -qr -- '-rl_[0-9a-f]{16}$' $name
            or test -e $path/status.json -o -e $path/events.jsonl -o -e $path/resolved.json
            echo $name
        end
    end
end

function __rltui_configs
    __fish_complete_suffix .toml | string match -r -- '.*(?:/|\.toml|\.json)$'
end

complete -c rltui -f
"""

_OFFERS = {
    RUN: "-f -a '(__rltui_runs)'",
    CONFIG: "-f -k -a '(__rltui_configs)'",
    FILE: "-F",
    FOLDER: "-f -a '(__fish_complete_directories)'",
    KEY: '-f -a "$__rltui_keys"',
    PAIR: "-f -a '(printf \"%s=\\n\" $__rltui_keys)'",
}


def fish(verbs: Sequence[Verb], keys: Sequence[str]) -> str:
    return "\n".join([f"{_FUNCTIONS}set -g __rltui_keys {' '.join(keys)}", *_lines(verbs)]) + "\n"


def _lines(verbs: Sequence[Verb]) -> Iterator[str]:
    for verb in verbs:
        here = " ".join(verb.path)
        only = f"complete -c rltui -n {_quoted(f'__rltui_only {here}'.rstrip())}"
        at = f"complete -c rltui -n {_quoted(f'__rltui_at {here}' if here else '__rltui_no_verb')}"
        for word, about in verb.verbs:
            yield f"{only} -a {word} -d {_quoted(about)}"
        for option in verb.options:
            yield f"{at} {_flags(option)} -d {_quoted(option.about)}{_value(option)}"
        for kind in dict.fromkeys(_offer(argument) for argument in verb.arguments):
            if kind:
                yield f"{at} {kind}"


def _flags(option: Option) -> str:
    return " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)


def _value(option: Option) -> str:
    if not option.takes:
        return ""
    offer = _offer(option)
    return f" -r {offer}" if offer else " -x"


def _offer(place: Option | Argument) -> str:
    return f"-f -a {_quoted(' '.join(place.choices))}" if place.choices else _OFFERS.get(place.takes, "")


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
