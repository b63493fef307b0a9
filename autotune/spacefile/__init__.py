"""Space files: YAML in, a checked StudySpec out, and every fault at once with file:line:column.

Knows what a key of the file means, and nothing of what a flag means. docs/space_file.md is the reference.
"""

from autotune.spacefile.loader import dump, load, load_text

__all__ = ["dump", "load", "load_text"]
