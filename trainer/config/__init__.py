"""One schema for a run's config: load, errors, migration, provenance and defaults derive from it. No torch.

loaded = load("my.toml", sets=["training.seed=3"])
loaded.config.training.seed, loaded.origins["training.seed"], loaded.resolved()
"""

from trainer.config.errors import ConfigError, Place, Problem, render
from trainer.config.keys import Key, all_keys
from trainer.config.load import Loaded, load, load_mapping, load_text
from trainer.config.migrate import Origin
from trainer.config.schema import RunConfig

__all__ = [
    "ConfigError",
    "Key",
    "Loaded",
    "Origin",
    "Place",
    "Problem",
    "RunConfig",
    "all_keys",
    "load",
    "load_mapping",
    "load_text",
    "render",
]
