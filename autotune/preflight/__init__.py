"""What must hold before anything is launched: the serving interpreter, the model, the GPUs, the prompts.

Everything here ends in exit status 2 with the next thing to type, and costs seconds rather than a model load.
"""

from autotune.preflight.drafts import draft_warnings, refuse_misfits
from autotune.preflight.environment import (
    Node,
    assumed_hardware,
    assumed_version,
    installed_version,
    installed_versions,
    provenance,
    tuner_commit,
)
from autotune.preflight.held_out import confirmation_within
from autotune.preflight.inspection import inspect, serving_of
from autotune.preflight.prompts import prompt_warnings
from autotune.preflight.proof import baseline_remarks, disproved_by_parser, named_commands
from autotune.preflight.space import count, problems_of, refuse_impossible

__all__ = [
    "Node",
    "assumed_hardware",
    "assumed_version",
    "baseline_remarks",
    "confirmation_within",
    "count",
    "disproved_by_parser",
    "draft_warnings",
    "inspect",
    "installed_version",
    "installed_versions",
    "named_commands",
    "problems_of",
    "prompt_warnings",
    "provenance",
    "refuse_impossible",
    "refuse_misfits",
    "serving_of",
    "tuner_commit",
]
