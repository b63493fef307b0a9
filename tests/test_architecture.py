"""The rules of the building that a machine can watch: sizes, names, layers, lightness."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "autotune").rglob("*.py"))
ALL_PYTHON = sorted(path for folder in ("autotune", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 400, 60, 7
VAGUE_NAMES = {"utils", "util", "common", "helpers", "misc", "shared"}


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_verb(node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> bool:
    """A verb of the command line has a parameter for each option, which typer reads from its signature."""
    return path.parent.name == "cli" and not node.name.startswith("_")


@pytest.mark.parametrize("path", ALL_PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_longer_than_400_lines(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MAX_FILE_LINES, f"{path.relative_to(ROOT)} has {lines} lines: redraw the room"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_function_is_longer_than_60_lines_or_takes_more_than_7_parameters(path: Path) -> None:
    for node in functions(path):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        assert length <= MAX_FUNCTION_LINES, f"{path.name}:{node.lineno} {node.name} has {length} lines"
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = len([argument for argument in arguments if argument.arg not in ("self", "cls")])
        if not is_verb(node, path):
            assert count <= MAX_PARAMETERS, f"{path.name}:{node.lineno} {node.name} takes {count} parameters"


def test_no_room_has_a_name_that_could_hold_anything() -> None:
    named = {part.removesuffix(".py") for path in SOURCES for part in path.relative_to(ROOT).parts}
    assert not named & VAGUE_NAMES


def test_help_loads_none_of_the_heavy_libraries() -> None:
    program = (
        "import sys\nfrom autotune.cli import main\n"
        "heavy = {'mlflow', 'optuna', 'numpy', 'sqlalchemy', 'pydantic', 'httpx', 'uvloop'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_sglang_is_never_imported() -> None:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not any(name == "sglang" or name.startswith("sglang.") for name in names), path


@pytest.mark.parametrize("path", sorted((ROOT / "search_spaces").glob("*.yaml")), ids=lambda path: path.name)
def test_every_search_space_loads(path: Path) -> None:
    from autotune import spacefile

    spec = spacefile.load(path)
    assert spec.plan().levels
    assert spacefile.load_text(spacefile.dump(spec.source), path.name).baseline == spec.baseline
