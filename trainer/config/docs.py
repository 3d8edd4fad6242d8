"""docs/config.md, made from the schema: `python -m trainer.config.docs > docs/config.md`."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import cleandoc, getdoc
from itertools import groupby

from trainer.config.derive import clip_defaults
from trainer.config.errors import ConfigError
from trainer.config.keys import REQUIRED_SECTIONS, Key, all_keys, section_models
from trainer.config.load import load_text
from trainer.config.migrations import MOVES, NO_EFFECT, SECTION_MOVES, VALUE_SPELLINGS
from trainer.config.sources import LOADER_KEYS
from trainer.config.toml_values import format_value

WIDTH = 118
ORIGINS = {"ref": "SDK reference", "sdk": "SDK models", "seen": "seen in real configs", "ours": "new here"}
NOTES = {"checks": "Checks", "why": "Why it exists"}

READING = """
One TOML file describes one run. Where several sources give a key, the order is: `--set a.b=c`, then the environment,
then the file, then the default. A value that is beaten is reported once.

- **Environment.** `TASK_APP_URL` is `services.task_url`. `RLTUI__TRAINING__SEED=3` is `training.seed`: any key, with
  two underscores where a path has a dot, and a value as TOML writes it. Names are read in small letters, so a name
  with capitals in a free table is given in the file or by `--set`; and so is `env_file_path`.
- **Secrets** (`ENVIRONMENT_API_KEY`, `OPENAI_API_KEY` and the like) are read from the environment only. What looks
  like a secret in the file is an error that does not repeat it.
- **Types are strict.** No text for a number, no boolean for an integer, no NaN. An integer will do for a number.
- **Unknown keys are errors** that name the nearest key and its section. `--allow-unknown` makes them warnings.
- **Old spellings work**, with one warning each; `rltui config migrate FILE` rewrites them and keeps your comments. Old
  and new given with different values is an error.
- **One file is one run**: nothing is included or inherited.
- **Nothing is dropped.** The run folder holds `config.toml` as it was given, and `resolved.json` with every value and
  where it came from: default, file and line, variable, `--set`, old key, or the formula that derived it.

`rltui validate FILE` checks a file, `rltui explain KEY` tells what this page tells, and `rltui config show FILE
--origin` shows what came from where.
"""

ERRORS = """
All errors are shown at once, sorted by position, and the exit code is 2. Each says where, what, why, what is allowed,
and what to do:
"""

ARITHMETIC = """
Words: a **step** is one optimizer update; an **iteration** is one round of episodes.

| | |
|---|---|
| episodes per iteration | E = `rollout.episodes_per_batch` x `rollout.batches_per_step` |
| groups per iteration | E / `training.group_size`, which must divide; a group shares one task seed |
| sequences per step | U = `training.batch_size` x min(`gradient_accumulation_steps`, `max_accumulated_minibatch`) |
| steps per iteration | m = E / U, rounded up; the last one may be smaller |
| iterations | `training.num_epochs` x `training.iterations_per_epoch` |
| steps in total | iterations x m: the horizon of `training.lr_schedule` |

Training seeds start at `data.seed_start` and go up, one a group, without the seeds of evaluation.
Groups are shuffled; the members of a group stay together. A group whose rewards are all equal teaches nothing: it is
counted as dead and left out. With method ppo it is trained on: advantages come from the value head.

`rltui validate FILE` prints these numbers for a file.
"""

LOSSES = (
    ("gspo", "one a sequence: exp(mean of log new - log anchor)", "one a sequence", "mean over sequences"),
    ("gspo_token", "the same value, gradient through each token", "one a token", "mean over sequences"),
    ("grpo", "one a token", "one a sequence, or a turn", "mean over tokens, then sequences"),
    ("dr_grpo", "one a token", "not divided by the deviation", "sum / (N x max_turns x max_tokens)"),
    ("ppo", "one a token", "GAE from a value head", "mean over tokens, then sequences"),
)

CLIPS = """
A ratio is clipped outside 1 - `clip_eps_low` and 1 + `clip_eps_high`. The small defaults under the proximal anchor are
the paper's. Under the behavior anchor they would be inside numeric noise: engine and learner never agree exactly. In
bfloat16 on a CPU that noise alone clips, at 0.02, a fifth of the 5-token and a twentieth of the 20-token sequences, so
take 0.1 there.
"""


CHANGES = """
A run that is going takes new values between two steps: `rltui steer RUN set KEY VALUE`. One that has ended goes on from
its last checkpoint, with other values or a whole other config if they differ in these keys alone:
`rltui train --resume RUN --set KEY=VALUE`.
"""


def document() -> str:
    """The whole page, Markdown."""
    parts = [
        "# The config of a run",
        "<!-- Generated from trainer/config by `python -m trainer.config.docs`. Do not edit. -->",
        "The smallest config there is. Everything else has a default:",
        f"```toml\n{smallest()}```",
        _wrap(f"Sections: {_contents()}"),
        f"## How a file is read\n\n{READING.strip()}",
        f"## When something is wrong\n\n{ERRORS.strip()}\n\n```\n{_sample_error()}\n```",
        f"## How much is trained\n\n{ARITHMETIC.strip()}",
        "## Keys",
        *_keys(),
        *_losses(),
        "## Keys that can change",
        CHANGES.strip(),
        "While a run is going (live):",
        _wrap(_listed(key.path for key in _all() if key.live)),
        "When it is resumed, beside these:",
        _wrap(_listed(key.path for key in _all() if key.resume and not key.live)),
        *_old_spellings(),
    ]
    return "\n\n".join(parts) + "\n"


def smallest() -> str:
    """A config of the required keys alone, with their examples."""
    wanted = [
        key for key in _all() if key.section in REQUIRED_SECTIONS and (key.required or key.path == "policy.model_name")
    ]
    blocks = []
    for section, keys in groupby(wanted, lambda key: key.section):
        lines = ((f"{key.name} = {format_value(key.meta['example'])}", key.summary) for key in keys)
        blocks.append("\n".join([f"[{section}]", *(f"{line:<38} # {about}" for line, about in lines)]))
    return "\n\n".join(blocks) + "\n"


def _all() -> Sequence[Key]:
    return tuple(all_keys().values())


def _contents() -> str:
    return " · ".join(f"[{path}](#{path.replace('.', '')})" for path in section_models())


def _sample_error() -> str:
    try:
        load_text(smallest().replace("group_size = 4", "group_size = 5"), "my.toml", environ={}, device="cpu")
    except ConfigError as error:
        return str(error)
    raise AssertionError("32 episodes are no groups of 5")


# --- keys


def _keys() -> Iterator[str]:
    yield _wrap(
        "Below a key stand its type and range, its default, and who documents it. **live**: it may change while a run "
        "is going. **resume**: it may differ when a run is resumed. Where a default is a formula, it follows from "
        "other keys. Where there is none, the key is unset and its feature off."
    )
    yield "### Top level"
    yield from (_key(key) for key in _all() if not key.section)
    for path, model in section_models().items():
        yield f"### {path}"
        if about := getdoc(model):
            yield _paragraphs(about)
        group = None
        for key in sorted((key for key in _all() if key.section == path), key=_by_group(path)):
            if key.group != group:
                group = key.group
                yield f"**{group}**" if group else ""
            yield _key(key)


def _by_group(path: str) -> Callable[[Key], int]:
    groups = list(dict.fromkeys(key.group for key in _all() if key.section == path))
    return lambda key: groups.index(key.group)


def _key(key: Key) -> str:
    meta = key.meta
    facts = [key.allowed + (f", in {key.unit}" if key.unit else "")]
    if key.required:
        facts.append(f"**required**, e.g. `{format_value(meta['example'])}`")
    elif key.derived:
        facts.append(f"default: {key.derived}")
    elif key.default is not None:
        facts.append(f"default `{format_value(key.default)}`")
    elif "example" in meta:
        facts.append(f"e.g. `{format_value(meta['example'])}`")
    facts += ["**live**"] if key.live else ["**resume**"] if key.resume else []
    facts.append(ORIGINS[key.origin])
    parts = [f"#### `{key.path}`", _wrap(" · ".join(facts)), _wrap(key.help)]
    notes = [_wrap(f"- {title}: {meta[name]}.") for name, title in NOTES.items() if name in meta]
    return "\n\n".join(parts + ["\n".join(notes)] * bool(notes))


# --- tables


def _losses() -> Iterator[str]:
    rows = []
    for variety, ratio, advantage, normalisation in LOSSES:
        behavior, proximal = (clip_defaults(variety, anchor) for anchor in ("behavior", "proximal"))
        rows.append((f"`{variety}`", ratio, advantage, normalisation, _pair(behavior), _pair(proximal)))
    head = ("variety", "ratio", "advantage", "the loss is", "clip low / high", "proximal")
    yield f"## Losses and clip ranges\n\n{_table(head, rows)}"
    yield CLIPS.strip()


def _pair(bounds: tuple[float, float]) -> str:
    return " / ".join(f"{bound:g}" for bound in bounds)


def _old_spellings() -> Iterator[str]:
    yield "## Old spellings\n\nThey load as the new key, with a warning each."
    rows = [(f"`{move.old}`", f"`{move.new}`" + (f" ({move.note})" if move.note else "")) for move in MOVES]
    rows += [(f"`[{old}]`", f"`[{new}]`, the whole section") for old, new in SECTION_MOVES.items()]
    rows += [(f"`{key}`", "a file of variables, which is loaded first") for key in LOADER_KEYS]
    yield _table(("old", "new"), rows)
    values = [
        (
            f"`{key} = {format_value(old)}`",
            ", ".join(f"`{name} = {format_value(value)}`" for name, value in new.items()),
        )
        for key, spellings in VALUE_SPELLINGS.items()
        for old, new in spellings.items()
    ]
    yield "Old values:\n\n" + _table(("old", "means"), values)
    yield "## Recognised, without effect\n\nThese are noted with the reason, and are never an error."
    reasons = {why: [key for key, other in NO_EFFECT.items() if other == why] for why in NO_EFFECT.values()}
    yield _table(("key", "why"), [(_listed(keys), why) for why, keys in reasons.items()])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _listed(paths: Iterable[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)


def _wrap(text: str) -> str:
    """Lines of the page's width; of a bullet the second and later ones are indented."""
    return "\n".join(
        textwrap.fill(
            line,
            WIDTH,
            subsequent_indent="  " if line.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )


def _paragraphs(text: str) -> str:
    joined = (" ".join(part.split()) for part in cleandoc(text).split("\n\n"))
    return "\n\n".join(_wrap(part) for part in joined)


if __name__ == "__main__":
    print(document(), end="")
