"""Engines: what the tuner knows of each flavour of server. Pure functions of text; see docs/engines.md."""

from autotune.engines.registry import get, names

__all__ = ["get", "names"]
