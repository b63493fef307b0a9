"""The documentation cannot lie: what it must mention is read from the program."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import autotune
from autotune.cli.main import app
from autotune.domain.trial import FailureReason
from autotune.scoring.guarding.guards import GUARDS, Guard

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_every_verb_and_every_option_is_documented() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        assert f"## autotune {name}" in text, name
        section = text.split(f"## autotune {name}\n", 1)[1].split("\n## ", 1)[0]
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    assert f"`{option}" in section, f"autotune {name} {option}"


@pytest.mark.parametrize("reason", FailureReason, ids=lambda reason: reason.word)
def test_every_failure_reason_is_documented_with_whose_fault_it_is(reason: FailureReason) -> None:
    text = (ROOT / "docs" / "failures.md").read_text()
    assert f"| `{reason.word}` | {reason.blame.value} |" in text


@pytest.mark.parametrize("guard", GUARDS.values(), ids=lambda guard: guard.name)
def test_every_guard_is_documented_with_its_effect_its_rule_and_what_provokes_it(guard: Guard) -> None:
    text = (ROOT / "docs" / "guards.md").read_text()
    effect = guard.effect.value + (f": `{guard.reason.word}`" if guard.reason is not None else "")
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{guard.name}` |")]
    assert row.startswith(f"| `{guard.name}` | {effect} | {guard.rule} | {guard.why} | ")
    assert len(row.rstrip(" |").split(" | ")) == 5


def test_the_page_on_guards_has_no_guard_that_the_program_has_not() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (?:void|alarm|mark)\b", (ROOT / "docs" / "guards.md").read_text(), re.MULTILINE)
    assert rows == list(GUARDS)


def test_the_table_of_modules_is_what_the_modules_say_of_themselves() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "structure"), "--check"], check=False)
    assert done.returncode == 0, "run scripts/structure"


def test_every_module_says_what_it_holds() -> None:
    for path in sorted((ROOT / "autotune").rglob("*.py")):
        text = path.read_text()
        assert not text.strip() or ast.get_docstring(ast.parse(text)), path


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_version_is_one(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == autotune.__version__


def test_the_readme_opens_with_the_two_commands_that_do_all_the_setting_up() -> None:
    lines = [line.strip() for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("    ")]
    assert lines[0].startswith("./scripts/demo")
    assert lines[1].startswith("./scripts/test")


def test_no_tracked_file_speaks_of_the_machine_it_was_made_on() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    forbidden = re.compile(r"/wo" + r"rk/|/roo" + r"t/|/opt/d" + r"ev")
    for name in tracked:
        path = ROOT / name
        if path.suffix in {".png", ".gz"} or not path.is_file():
            continue
        found = forbidden.search(path.read_text(errors="replace"))
        assert found is None, f"{name}: {found.group() if found else ''}"
