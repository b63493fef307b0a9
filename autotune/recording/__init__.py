"""The run folder, whose `trials.jsonl` is the truth, and MLflow as its mirror. See docs/recording.md.

Importing this room imports no MLflow.
"""

from autotune.domain.secrets import MASK
from autotune.recording.codec import SCHEMA_VERSION, decode_trial, encode_trial, stored_form
from autotune.recording.mirror import MlflowMirror, SyncReport, experiment_id, mirror_for, sync
from autotune.recording.recorder import NoMirror, Recorder
from autotune.recording.request_records import read_records
from autotune.recording.run_folder import RunFolder
from autotune.recording.tracking import default_tracking, ui_available, ui_command, ui_url
from autotune.recording.warm_start import read_knowledge, write_knowledge

__all__ = [
    "MASK",
    "SCHEMA_VERSION",
    "MlflowMirror",
    "NoMirror",
    "Recorder",
    "RunFolder",
    "SyncReport",
    "decode_trial",
    "default_tracking",
    "encode_trial",
    "experiment_id",
    "mirror_for",
    "read_knowledge",
    "read_records",
    "stored_form",
    "sync",
    "ui_available",
    "ui_command",
    "ui_url",
    "write_knowledge",
]
