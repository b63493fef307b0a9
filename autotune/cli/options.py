"""Options that several verbs share, and reading a space file with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.domain.study import EngineSpec, StudySpec
    from autotune.recording import RunFolder
    from autotune.study import EarlierStudy

Space = Annotated[Path, typer.Option("--space", help="The space file (see docs/space_file.md).", show_default=False)]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a value of the space file; may be repeated."),
]
EngineName = Annotated[str | None, typer.Option("--engine", help="Another engine than the file's: `simulated`.")]
Runs = Annotated[Path, typer.Option("--runs", help="The folder that holds the run folders.")]
MlRuns = Annotated[Path, typer.Option("--mlruns", help="The folder of MLflow's database and artifacts.")]
Study = Annotated[str | None, typer.Argument(help="A run folder, or the start of its name; the newest where left out.")]
DEFAULT_RUNS = Path("runs")
DEFAULT_MLRUNS = Path("mlruns")


def read_space(space: Path, overrides: list[str] | None, engine: str | None) -> StudySpec:
    """Raises SpaceFileError with every fault of the file, those of the engine's section among them."""
    from autotune import spacefile

    return spacefile.load(space, overrides or (), engine=engine, check_engine=_engine_faults)


def find_run(runs: Path, study: str | None) -> tuple[RunFolder, StudySpec]:
    """A recorded study and its space file as it was resolved."""
    from autotune import spacefile
    from autotune.recording import RunFolder

    folder = RunFolder.find(runs, study)
    return folder, spacefile.load_text(folder.study_yaml(), str(folder.path / "study.yaml"))


def find_earlier(runs: Path, name: str) -> EarlierStudy:
    """A recorded study for a warm start: its run folder or the trials.jsonl in it, by path or by name. Raises
    RunFolderError for a path that is none."""
    from autotune.recording import RunFolder
    from autotune.study import EarlierStudy

    path = Path(name).parent if Path(name).name == "trials.jsonl" else Path(name)
    if path.exists():
        RunFolder.open(path)
    folder, spec = find_run(runs, str(path))
    return EarlierStudy(folder.path.name, spec, folder.trials())


def _engine_faults(section: EngineSpec) -> tuple[str, ...]:
    from autotune import engines

    try:
        return engines.get(section.name).check_spec(section)
    except InputError as error:
        return (f"{error.message}; {error.hint}" if error.hint else error.message,)
