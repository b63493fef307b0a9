"""What a study took from earlier ones, in its run folder: a resumed study goes on with the same knowledge, whatever has
become of the folders that it came from."""

from __future__ import annotations

import json

from autotune.domain.knowledge import Knowledge
from autotune.errors import RunFolderError
from autotune.recording.codec import decode_data, encode_data
from autotune.recording.run_folder import RunFolder

NAME = "warm_start.json"


def write_knowledge(folder: RunFolder, knowledge: Knowledge) -> None:
    """Nothing is written where nothing was taken. Raises StudyStopped as the folder's own writing does."""
    if knowledge == Knowledge():
        return
    folder.write_report(NAME, json.dumps(encode_data(knowledge, "warm start"), indent=1, allow_nan=False) + "\n")


def read_knowledge(folder: RunFolder) -> Knowledge:
    """Empty for a study that began cold. Raises RunFolderError where the file cannot be read."""
    path = folder.path / NAME
    if not path.exists():
        return Knowledge()
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunFolderError(
            f"{path} must say what the study took from earlier ones, but cannot be read: {error}",
            hint="without it the study would go on another way: begin a new one with --warm-start",
        ) from error
    return decode_data(Knowledge, data, "warm start")
