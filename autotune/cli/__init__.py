"""The verbs. No logic that a Python caller would miss: see autotune.pipeline."""
