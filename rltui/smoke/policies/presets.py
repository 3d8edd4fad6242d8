"""Vendors' endpoints by name."""

from __future__ import annotations

from dataclasses import dataclass

OWN_KEY = "SMOKE_API_KEY"  # of an endpoint that is given by its URL


@dataclass(frozen=True, slots=True)
class Preset:
    url: str
    key_name: str
    model: str


PRESETS = {
    "openai": Preset("https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-5-nano"),
    "gpt-5-nano": Preset("https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-5-nano"),
    "groq": Preset("https://api.groq.com/openai/v1", "GROQ_API_KEY", "openai/gpt-oss-20b"),
}
