"""A public address for a task app that is served from here: the run's own tunnel code, for who serves an app."""

from trainer.tunnel import PROGRAM, Tunnel, TunnelError

__all__ = ["PROGRAM", "Tunnel", "TunnelError"]
