"""The scripts for bash and zsh: a table of the grammar, a walk over the words of the line, and what each shell offers.

Names of files and runs come from the folder when asked for, and are never evaluated.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rltui.cli.shells.grammar import Argument, Option, Verb

# Sets `wanted` to what may stand at the cursor, from the words before it ("$@") and the one under it ($cur).
_WALK = r"""
_rltui_walk() {
    local word="" flag="" only_arguments=""
    wanted=""
    _rltui_table
    for word in "$@"; do
        if [ "$word" = "=" ]; then  # bash splits --flag=value and key=value there
            [ -n "$wanted" ] || wanted="nothing"
            continue
        fi
        if [ -n "$wanted" ]; then
            if [ "$flag" = "--runs-dir" ]; then runs_dir="$word"; fi
            wanted=""
            continue
        fi
        case "$only_arguments$word" in
            --) only_arguments=1; verbs="" ;;
            -*)
                flag="$word"
                case "$values" in
                    *" $word="*) wanted="${values#*" $word="}"; wanted="${wanted%% *}" ;;
                esac
                ;;
            *)
                case " $verbs " in
                    *" $word "*) verb="${verb:+$verb }$word"; _rltui_table ;;
                    *)
                        verbs=""
                        case "$arguments" in
                            *" "*) arguments="${arguments#* }" ;;
                            *"+") ;;
                            *) arguments="" ;;
                        esac
                        ;;
                esac
                ;;
        esac
    done
    if [ -n "$wanted" ]; then return; fi
    case "$only_arguments$cur" in -*) wanted="options"; return ;; esac
    if [ -n "$verbs" ]; then wanted="verbs"; return; fi
    wanted="${arguments%% *}"
    wanted="${wanted%+}"
    if [ -z "$wanted$only_arguments" ]; then wanted="options"; fi
}

_rltui_is_run() {
    [ -d "$1" ] || return 1
    case "${1##*/}" in *-rl_????????????????) return 0 ;; esac
    [ -e "$1/status.json" ] || [ -e "$1/events.jsonl" ] || [ -e "$1/resolved.json" ]
}
"""

_BASH = r"""
_rltui_offer() {
    local path="" name=""
    case "$wanted" in
        run)
            for path in "${runs_dir/#\~\//$HOME/}"/*; do
                printf -v name %q "${path##*/}"  # readline's own escapes miss some of `$(…)`
                if [[ $name == "$cur"* ]] && _rltui_is_run "$path"; then COMPREPLY+=("$name"); fi
            done
            if [[ ${#COMPREPLY[@]} -gt 0 ]]; then return; fi
            wanted=folder
            _rltui_offer
            ;;
        config)
            while IFS= read -r path; do
                if [[ -d ${path/#\~\//$HOME/} || $path == *.toml || $path == *.json ]]; then COMPREPLY+=("$path"); fi
            done < <(compgen -f -- "$cur")
            ;;
        file) while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen -f -- "$cur") ;;
        folder) while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen -d -- "$cur") ;;
        words:*) path="${wanted#words:}"; COMPREPLY=($(compgen -W "${path//,/ }" -- "$cur")); return ;;
        key) COMPREPLY=($(compgen -W "$_rltui_keys" -- "$cur")); return ;;
        pair) compopt -o nospace 2>/dev/null; COMPREPLY=($(compgen -S = -W "$_rltui_keys" -- "$cur")); return ;;
        verbs) COMPREPLY=($(compgen -W "$verbs" -- "$cur")); return ;;
        options) COMPREPLY=($(compgen -W "$options" -- "$cur")); return ;;
    esac
    compopt -o filenames 2>/dev/null  # escapes what is special in a name
}

_rltui() {
    local cur="${COMP_WORDS[COMP_CWORD]}" before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    local verb="" verbs="" options="" values="" arguments="" wanted="" runs_dir="${RLTUI__LOGGING__RUNS_DIR:-runs}"
    COMPREPLY=()
    if [[ $cur == "=" ]]; then before+=("="); cur=""; fi
    _rltui_walk "${before[@]}"
    _rltui_offer
}
complete -F _rltui rltui
"""

_ZSH = r"""
_rltui() {
    local cur="${PREFIX}" verb="" verbs="" options="" values="" arguments="" wanted="" run_path=""
    local runs_dir="${RLTUI__LOGGING__RUNS_DIR:-runs}"
    local -a before described names
    before=("${(@Q)words[2,CURRENT-1]}")
    if [[ $cur == --*=* ]]; then
        before+=("${cur%%=*}")
        compset -P '*='
        cur="$PREFIX"
    fi
    _rltui_walk "${before[@]}"
    case "$wanted" in
        run)
            for run_path in "${runs_dir/#\~\//$HOME/}"/*(N); do
                if _rltui_is_run "$run_path"; then names+=("${run_path:t}"); fi
            done
            compadd -a names || _files -/
            ;;
        config) _files -g '*.(toml|json)(-.)' ;;
        file) _files ;;
        folder) _files -/ ;;
        words:*) compadd -- "${(@s:,:)${wanted#words:}}" ;;
        key) compadd -- ${=_rltui_keys} ;;
        pair) compadd -S '=' -- ${=_rltui_keys} ;;
        verbs) _rltui_about_verbs; _describe -V 'verb' described ;;
        options) _rltui_about_options; _describe -o 'option' described ;;
    esac
}
if [[ "$funcstack[1]" == "_rltui" ]]; then
    _rltui "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _rltui rltui
fi
"""


def bash(verbs: Sequence[Verb], keys: Sequence[str]) -> str:
    return f"# bash completion for rltui\n{_table(verbs, keys)}{_WALK}{_BASH}"


def zsh(verbs: Sequence[Verb], keys: Sequence[str]) -> str:
    about = _described("verbs", verbs) + _described("options", verbs)
    return f"#compdef rltui\n{_table(verbs, keys)}{about}{_WALK}{_ZSH}"


def _table(verbs: Sequence[Verb], keys: Sequence[str]) -> str:
    """`_rltui_table`: what may follow $verb, as lists of words and of flag=kind."""
    lines = [f"_rltui_keys={shlex.quote(' '.join(keys))}", "_rltui_table() {", '    case "$verb" in']
    for verb in verbs:
        lists = {
            "verbs": " ".join(word for word, _ in verb.verbs),
            "options": " ".join(flag for option in verb.options for flag in offered(option)),
            "values": "".join(f" {flag}={kind}" for flag, kind in _values(verb)) + " ",
            "arguments": " ".join(_kind(argument) + "+" * argument.repeats for argument in verb.arguments),
        }
        given = " ".join(f"{name}={shlex.quote(words)}" for name, words in lists.items())
        lines.append(f"        {shlex.quote(' '.join(verb.path))}) {given} ;;")
    return "\n".join([*lines, "    esac", "}"])


def _described(kind: str, verbs: Sequence[Verb]) -> str:
    """`_rltui_about_KIND`: the same words with their help, as zsh's _describe takes them."""
    lines = [f"\n_rltui_about_{kind}() {{", '    case "$verb" in']
    for verb in verbs:
        if kind == "verbs":
            rows = list(verb.verbs)
        else:
            rows = [(flag, option.about) for option in verb.options for flag in offered(option)]
        if rows:
            items = " ".join(shlex.quote(f"{word.replace(':', chr(92) + ':')}:{about}") for word, about in rows)
            lines.append(f"        {shlex.quote(' '.join(verb.path))}) described=({items}) ;;")
    return "\n".join([*lines, "    esac", "}"])


def offered(option: Option) -> tuple[str, ...]:
    """The flags that are shown: the long ones, where there are such."""
    return tuple(flag for flag in option.flags if flag.startswith("--")) or option.flags


def _values(verb: Verb) -> Iterator[tuple[str, str]]:
    """Each flag that takes a value, and what that may be."""
    for option in verb.options:
        if option.takes:
            yield from ((flag, _kind(option)) for flag in option.flags)


def _kind(place: Option | Argument) -> str:
    return f"words:{','.join(place.choices)}" if place.choices else place.takes
