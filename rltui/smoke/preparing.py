"""From what is asked for to the settings of a smoke test."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rltui.cli.configs import open_config
from rltui.smoke.asked import Asked
from rltui.smoke.settings import Settings, settings_of
from trainer.config import Loaded


@dataclass(frozen=True, slots=True)
class Prepared:
    """settings; own: arguments of the process of the own model, None without a config's file; variables: names that the
    config's env file has put into this process's environment."""

    settings: Settings
    own: tuple[str, ...] | None
    variables: tuple[str, ...] = ()


def prepared(asked: Asked, loaded: Loaded | None = None) -> Prepared:
    """Reads the config; one without a file comes `loaded`. Raises ConfigError, or ValueError: no app is named."""
    if asked.config is not None:
        loaded = open_config(str(asked.config), asked.sets, allow_unknown=asked.allow_unknown)
    settings = settings_of(
        loaded,
        url=asked.url,
        policy=asked.policy,
        seeds=asked.seeds,
        group_size=asked.group_size,
        rollouts=asked.rollouts,
        full=asked.full,
        folder=str(asked.config.parent) if asked.config is not None else ".",
    )
    if loaded is None:
        return Prepared(settings, None)
    before = set(os.environ)
    loaded.export(os.environ)
    variables = tuple(set(os.environ) - before)
    if asked.config is None:
        return Prepared(settings, None, variables)
    sets = [word for item in asked.sets for word in ("--set", item)]
    own = (str(asked.config), *sets, *(["--allow-unknown"] if asked.allow_unknown else []))
    return Prepared(settings, own, variables)
