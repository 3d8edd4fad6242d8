"""From a value of smoke.policy to the policy that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltui.smoke.policies.base import Policy, PolicyUnavailable
from rltui.smoke.policies.endpoint import EndpointPolicy
from rltui.smoke.policies.mock import MockPolicy
from rltui.smoke.policies.own import OwnPolicy
from rltui.smoke.policies.person import Ask, PersonPolicy
from rltui.smoke.policies.presets import PRESETS
from rltui.smoke.policies.scripted import ScriptedPolicy
from rltui.smoke.settings import Settings

KNOWN = ("mock", "scripted", "self", "human", *PRESETS)


def make_policy(
    settings: Settings,
    *,
    environ: Mapping[str, str],
    ask: Ask | None = None,
    own_arguments: Sequence[str] | None = None,
) -> Policy:
    """Raises PolicyUnavailable: it is not known, or lacks what it needs.

    ask: how a person is asked. own_arguments: config and --set of the run whose model plays.
    """
    spec = settings.policy
    if spec == "mock" and settings.mock_backend == "openai":
        spec = "openai"
    if spec == "mock":
        return MockPolicy()
    if spec == "scripted":
        return ScriptedPolicy()
    if spec == "human":
        if ask is None:
            raise PolicyUnavailable("nobody can be asked here", "Run it on a terminal, or choose another --policy")
        return PersonPolicy(ask)
    if spec == "self":
        if own_arguments is None:
            raise PolicyUnavailable("self plays with the model of a config", "Give the config: rltui smoke CONFIG")
        model = [] if settings.model is None else ["--set", f"policy.model_name={settings.model}"]
        return OwnPolicy([*own_arguments, *model])
    if spec in PRESETS or spec.startswith(("http://", "https://")):
        return EndpointPolicy(spec, model=settings.model, environ=environ, max_tokens=settings.max_tokens)
    raise PolicyUnavailable(f"there is no policy {spec!r}", f"Known: {', '.join(KNOWN)}, or an http(s) URL")
