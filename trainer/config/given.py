"""What was given for a config, without what follows from it: for a job that will be on another machine."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

from trainer.config.check import nest
from trainer.config.load import Loaded
from trainer.config.migrate import no_effect
from trainer.config.sources import flatten


def given_values(loaded: Loaded) -> dict[str, Any]:
    """What all sources give together, by section, under its keys of today; defaults and derived values are left out.

    Keys that are recognised and have no effect stay as the file has them: a job's stored config holds all of it.
    """
    found = nest({key: copy.deepcopy(entry.value) for key, entry in loaded._facts.entries.items()})
    # Which one is meant can hang on an old spelling of another key, which is not here any more.
    found["algorithm"]["variety"] = loaded.config.algorithm.variety
    for path, key, value in flatten(tomllib.loads((loaded.text or "").removeprefix("\ufeff"))):
        if no_effect(key) is not None:
            table = found
            for name in path[:-1]:
                table = table.setdefault(name, {})
            table[path[-1]] = value
    return found
