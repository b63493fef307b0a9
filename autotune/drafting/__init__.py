"""From a command that works to a space file: read, placed on a version's flags, and written with what to search.

Nothing is run: the text is taken apart by a reader of its own. `docs/init.md` says what it reads.
"""

from autotune.drafting.asking import interpreter_of
from autotune.drafting.draft import Draft, Request, make
from autotune.drafting.facts import parse_hardware
from autotune.drafting.invocation import Invocation
from autotune.drafting.reading import read

__all__ = [
    "Draft",
    "Invocation",
    "Request",
    "interpreter_of",
    "make",
    "parse_hardware",
    "read",
]
