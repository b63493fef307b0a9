"""The requests of one level as a small file: gzip of JSON lines, ticks as whole numbers of 0.1 ms.

Line 1 describes the level; each further line is one request. Chunk times and token counts are written as steps from
the one before (the first from `sent`, and from 0). Rounding is done before the steps are taken, so it never adds up.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from autotune.domain.measurement import ClientHealth, LevelRun, RequestRecord
from autotune.errors import RunFolderError

SCHEMA_VERSION = 1
TICKS_PER_SECOND = 10_000


def encode_level(run: LevelRun) -> bytes:
    """Times to 0.1 ms; everything else exactly."""
    head = {
        "schema_version": SCHEMA_VERSION,
        "ticks_per_second": TICKS_PER_SECOND,
        "concurrency": run.concurrency,
        "window": None if run.window is None else [_ticks(edge) for edge in run.window],
        "lag_p99_s": run.client.lag_p99_s,
        "cpu_share": run.client.cpu_share,
        "in_flight_minimum": run.in_flight_minimum,
        "rate": run.rate,
        "remarks": list(run.remarks),
    }
    lines = [head, *(_encode_request(record) for record in run.records)]
    text = "".join(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in lines)
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def read_records(path: Path) -> LevelRun:
    """Raises RunFolderError if the file is missing, damaged, or of a newer schema."""
    try:
        lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        head, requests = lines[0], lines[1:]
        if head["schema_version"] > SCHEMA_VERSION:
            raise RunFolderError(
                f"{path}: this version reads records of schema {SCHEMA_VERSION}, but got {head['schema_version']}",
                hint="upgrade autotune, or use the version that recorded the study",
            )
        window = head["window"]
        return LevelRun(
            concurrency=head["concurrency"],
            records=tuple(_decode_request(request) for request in requests),
            window=None if window is None else (_seconds(window[0]), _seconds(window[1])),
            client=ClientHealth(head["lag_p99_s"], head["cpu_share"]),
            in_flight_minimum=head["in_flight_minimum"],
            rate=head.get("rate"),
            remarks=tuple(head.get("remarks", ())),
        )
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError) as error:
        raise RunFolderError(f"{path} must hold the requests of a level, but cannot be read: {error}") from error


_SAME = (
    "identity",
    "prompt",
    "warmup",
    "requested_tokens",
    "prompt_tokens",
    "completion_tokens",
    "verify_count",
    "finish_reason",
    "text",
    "error",
    "cancelled",
)


def _encode_request(record: RequestRecord) -> dict[str, Any]:
    sent = _ticks(record.sent_s)
    stamps = {"first_text": record.first_text_s, "ended": record.ended_s}
    return {
        **{name: getattr(record, name) for name in _SAME},
        **{name: _ticks(stamp) for name, stamp in stamps.items() if stamp is not None},
        "sent": sent,
        "time_steps": _steps(sent, map(_ticks, record.chunk_times_s)),
        "token_steps": _steps(0, record.chunk_tokens),
    }


def _decode_request(data: dict[str, Any]) -> RequestRecord:
    times = accumulate(data["time_steps"], initial=data["sent"])
    tokens = accumulate(data["token_steps"], initial=0)
    return RequestRecord(
        sent_s=_seconds(data["sent"]),
        chunk_times_s=tuple(_seconds(tick) for tick in times)[1:],
        chunk_tokens=tuple(tokens)[1:],
        first_text_s=_seconds(data["first_text"]) if "first_text" in data else None,
        ended_s=_seconds(data["ended"]) if "ended" in data else None,
        **{name: data[name] for name in _SAME},
    )


def _steps(start: int, values: Iterable[int]) -> list[int]:
    return [after - before for before, after in pairwise([start, *values])]


def _ticks(seconds: float) -> int:
    return round(seconds * TICKS_PER_SECOND)


def _seconds(ticks: int) -> float:
    return ticks / TICKS_PER_SECOND
