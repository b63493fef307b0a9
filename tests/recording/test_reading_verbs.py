"""A recorded study may lie on a disk that only reads: no verb that tells of it writes into its run folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import trial
from programs import SMALL_SPACE
from typer.testing import CliRunner

from autotune import spacefile
from autotune.cli.main import app
from autotune.cli.options import find_earlier
from autotune.domain.configuration import Configuration
from autotune.recording import RunFolder

WRITING = {"run"}
WITHOUT_A_STUDY = {"bench", "check", "init"}
SERVING = {"ui"}  # becomes MLflow's server; it reads of a study what `find_run` reads
READING = [
    ("report",),
    ("report", "--markdown"),
    ("report", "--json"),
    ("export",),
    ("export", "--format", "json", "--trial", "0"),
    ("export", "--level", "10"),
    ("studies",),
    ("sync", "--mlruns", "mlruns"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """As a killed study leaves it: no report, half a record at the end, and a trial that has no folder."""
    monkeypatch.chdir(tmp_path)
    spec = spacefile.load_text(SMALL_SPACE.replace("8: 2", "10: 2"), "small.yaml")
    folder = RunFolder.create(tmp_path / "runs", spec, spacefile.dump(spec.source), simulated=True)
    other = Configuration({**spec.baseline, "cuda_graph_max_bs": 32})
    for result in (
        trial(0, configuration=spec.baseline),
        trial(1, 356.6, configuration=other),
        trial(2, None, configuration=spec.baseline, command=None),
    ):
        folder.append(result)
    with folder.trials_path.open("ab") as file:
        file.write(b'{"number": 3, "half')
    return folder


def content(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below `root`: when it was last changed (of a folder, when something came or went), and what it is."""
    found = [root, *root.rglob("*")]
    return {str(p): (p.lstat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in found}


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_reading_verb_changes_nothing_in_the_run_folder(words: tuple[str, ...], folder: RunFolder) -> None:
    before = content(folder.path.parent)
    done = CliRunner().invoke(app, [words[0], *words[1:]])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "small" in done.output or "imaginary/model" in done.output
    assert content(folder.path.parent) == before


def test_a_warm_start_changes_nothing_in_the_folder_that_it_is_from(folder: RunFolder) -> None:
    before = content(folder.path.parent)
    assert len(find_earlier(folder.path.parent, folder.path.name).trials) == 3
    assert content(folder.path.parent) == before


def test_every_verb_is_known_as_reading_or_not() -> None:
    verbs = {command.name for command in app.registered_commands}
    assert verbs == {words[0] for words in READING} | WRITING | WITHOUT_A_STUDY | SERVING
