"""The config's classes; `rl` has them all."""

from rltui.sdk.api.train.configs.rl import *  # noqa: F403
from rltui.sdk.api.train.configs.rl import __all__ as __all__
