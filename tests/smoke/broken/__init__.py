"""Task apps with one fault each: every subclass of `App` is named for what is wrong with it."""

from tests.smoke.broken import contract, episodes, faults
from tests.smoke.broken.app import APPS, KEY, App

__all__ = ["APPS", "KEY", "App", "contract", "episodes", "faults"]
