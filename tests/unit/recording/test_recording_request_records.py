"""Request records on disk: equal to 0.1 ms, and exactly in everything else."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path

import pytest
from builders import level_run, record, spec

from autotune.domain.measurement import ClientHealth, LevelRun
from autotune.errors import RunFolderError
from autotune.recording import RunFolder, read_records
from autotune.recording.request_records import encode_level


def stored(run: LevelRun, path: Path) -> LevelRun:
    path.write_bytes(encode_level(run))
    return read_records(path)


def to_tick(seconds: float) -> float:
    return round(seconds * 10_000) / 10_000


def rounded(run: LevelRun) -> LevelRun:
    records = tuple(
        dataclasses.replace(
            request,
            sent_s=to_tick(request.sent_s),
            chunk_times_s=tuple(to_tick(time) for time in request.chunk_times_s),
        )
        for request in run.records
    )
    window = None if run.window is None else (to_tick(run.window[0]), to_tick(run.window[1]))
    return dataclasses.replace(run, records=records, window=window)


def test_a_steady_level_comes_back_to_a_tenth_of_a_millisecond(tmp_path: Path) -> None:
    run = level_run(concurrency=3)
    assert len(run.records) > 100
    assert stored(run, tmp_path / "r.gz") == rounded(run)


def test_what_was_read_once_is_written_and_read_again_unchanged(tmp_path: Path) -> None:
    once = stored(level_run(), tmp_path / "1.gz")
    assert stored(once, tmp_path / "2.gz") == once


def test_rounding_does_not_add_up_over_many_chunks(tmp_path: Path) -> None:
    request = record(sent_s=98_765.43217, gap_s=0.0123456, tokens=4000)
    (back,) = stored(level_run(request), tmp_path / "r.gz").records
    assert abs(back.chunk_times_s[-1] - request.chunk_times_s[-1]) <= 0.00005 + 1e-9


def test_every_kind_of_ending_is_kept(tmp_path: Path) -> None:
    requests = (
        record(identity="whole", text="a ∑ b\n", verify_count=3, chunks=[(0.5, 3), (0.75, 8)]),
        record(identity="cut", cancelled=True, finish_reason=None),
        record(identity="refused", chunks=[], error="HTTP 503", prompt_tokens=None, finish_reason=None),
        record(identity="warm", warmup=True),
    )
    run = level_run(*requests, client=ClientHealth(None, None), window=None, in_flight_minimum=None)
    assert stored(run, tmp_path / "r.gz") == rounded(run)


def test_the_file_is_small(tmp_path: Path) -> None:
    run = level_run(concurrency=4)
    chunks = sum(len(request.chunk_times_s) for request in run.records)
    assert len(encode_level(run)) < 2 * chunks


def test_the_run_folder_names_the_file_by_its_level(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, spec(), "", simulated=False)
    path = folder.write_records(7, level_run())
    assert path == folder.path / "trials" / "0007" / "records-C2.jsonl.gz"
    assert read_records(path) == rounded(level_run())


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"x" + data,
        lambda data: gzip.compress(b"[]"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    path = tmp_path / "records-C2.jsonl.gz"
    path.write_bytes(damage(encode_level(level_run())))
    with pytest.raises(RunFolderError, match=r"records-C2\.jsonl\.gz must hold the requests of a level"):
        read_records(path)


def test_records_of_a_newer_schema_are_refused_and_say_so(tmp_path: Path) -> None:
    text = gzip.decompress(encode_level(level_run())).replace(b'"schema_version":1', b'"schema_version":2', 1)
    (tmp_path / "r.gz").write_bytes(gzip.compress(text))
    with pytest.raises(RunFolderError, match="schema 1, but got 2"):
        read_records(tmp_path / "r.gz")
