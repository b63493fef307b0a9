"""What a study took from earlier ones, kept in its run folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import configuration, eagle, spec

from autotune.domain.knowledge import Knowledge, KnownCrash, KnownGood, Prior
from autotune.errors import RunFolderError
from autotune.recording import RunFolder, read_knowledge, write_knowledge

KNOWN = Knowledge(
    runs=("a", "b"),
    order=("spec_v2",),
    idle=("NCCL_PROTO",),
    known_good=(KnownGood(eagle(), "a", 3, 1.2), KnownGood(eagle(spec_v2=False), "b", 4)),
    crashes=(KnownCrash(configuration(NCCL_PROTO=None), "a", 5, "out_of_memory_pool"),),
    survivors=(configuration(),),
    priors=(Prior(eagle(), "a", 3, {1: 1.1, 10: 1.3}, {1: 2.5}),),
    notes=("warm start from a",),
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, spec(), "study: kimi-eagle3\n", simulated=False)


def test_it_is_read_back_as_it_was_written(folder: RunFolder) -> None:
    write_knowledge(folder, KNOWN)
    assert read_knowledge(folder) == KNOWN


def test_a_cold_study_has_no_such_file(folder: RunFolder) -> None:
    write_knowledge(folder, Knowledge())
    assert not (folder.path / "warm_start.json").exists()
    assert read_knowledge(folder) == Knowledge()


@pytest.mark.parametrize("text", ["{", "[]", '{"runs": [3]}', '{"prior": []}'])
def test_a_damaged_file_is_told_and_not_passed_over(folder: RunFolder, text: str) -> None:
    (folder.path / "warm_start.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"warm.start"):
        read_knowledge(folder)
