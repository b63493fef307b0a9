"""The load client: keeps a level's requests in flight and stamps what comes back. It judges and prints nothing."""

from autotune.load.generator import run_level
from autotune.load.prompts import prompt_source
from autotune.load.session import Clock

__all__ = ["Clock", "prompt_source", "run_level"]
