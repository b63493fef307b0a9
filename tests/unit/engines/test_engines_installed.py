from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import pytest

from autotune import engines
from autotune.domain.study import EngineSpec
from autotune.domain.trial import EngineVersion
from autotune.engines.dialect.installed import VERSION_PROGRAM, parse_flags, parse_version
from autotune.errors import ServingEnvironmentError


def run_version_program(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    monkeypatch.setattr(sys, "path", ["", str(folder)])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(VERSION_PROGRAM, "version", "exec"), {})
    return printed.getvalue()


def install(folder: Path, name: str, version: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_the_program_reads_package_metadata_and_imports_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, version in (
        ("sglang", "0.5.23"),
        ("torch", "2.14.1"),
        ("sglang-kernel", "0.4.10"),
        ("flashinfer_python", "0.7.2"),
        ("nvidia-nccl-cu13", "2.30.7"),
        ("unrelated", "1.0"),
    ):
        install(tmp_path, name, version)
    version = parse_version(run_version_program(monkeypatch, tmp_path))
    assert version.text == "0.5.23"
    assert version.release == (0, 5, 23)
    assert {key: version.details[key] for key in ("torch", "kernels", "flashinfer", "nccl")} == {
        "torch": "2.14.1",
        "kernels": "0.4.10",
        "flashinfer": "0.7.2",
        "nccl": "2.30.7",
    }
    assert "unrelated" not in version.details
    assert "sglang" not in sys.modules


def test_an_interpreter_without_sglang_is_refused_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    printed = run_version_program(monkeypatch, tmp_path)
    assert json.loads(printed)["sglang"] is None
    with pytest.raises(ServingEnvironmentError, match="no sglang in this interpreter") as caught:
        parse_version(printed)
    assert "engine.python" in caught.value.hint


def test_lines_of_a_wrapper_before_the_programs_own_are_passed_over() -> None:
    assert parse_version('loading modules...\n{"a": 1}\n{"sglang": "0.5.9"}\n').text == "0.5.9"


def test_a_post_release_compares_as_its_release() -> None:
    version = parse_version('{"sglang": "0.5.15.post1"}')
    assert version.text == "0.5.15.post1"
    assert version.release == (0, 5, 15)
    assert "flag_table" not in version.details


def test_a_version_newer_than_any_table_says_whose_flags_stand_in() -> None:
    assert parse_version('{"sglang": "0.6.1"}').details["flag_table"] == "0.5.23"


@pytest.mark.parametrize("text", ["0.4.6", "main", ""])
def test_a_version_older_than_all_or_unreadable_is_refused(text: str) -> None:
    with pytest.raises(ServingEnvironmentError):
        parse_version(json.dumps({"sglang": text}))


@pytest.mark.parametrize("printed", ["", "Traceback ...", "[1]", '{"torch": "2"}'])
def test_what_is_not_the_programs_answer_is_shown(printed: str) -> None:
    with pytest.raises(ServingEnvironmentError, match="must print its packages' versions"):
        parse_version(printed)


def answer(flags: dict[str, object]) -> str:
    return "a warning\n" + json.dumps({"sglang": "0.5.23", "version": "0.5.23", "flags": flags})


def test_the_installed_parser_is_read_as_a_table() -> None:
    table = parse_flags(answer({"--tp-size": {"kind": "int", "aliases": ["--tensor-parallel-size"]}}))
    assert table.main("--tensor-parallel-size") == "--tp-size"


def test_only_what_the_table_lets_through_is_news_from_the_parser() -> None:
    sglang = engines.get("sglang")
    spec, version = EngineSpec("sglang", "/p", "/m", {"tp-size": 2}), EngineVersion("0.5.23", (0, 5, 23))
    printed = answer({"--tp-size": {"kind": "int"}, "--page-size": {"kind": "int", "choices": ["1", "64"]}})
    told = sglang.disproved(spec, version, {"page_size": (1, 16), "attention_backend": ("triton", "nonsense")}, printed)
    assert len(told) == 2
    assert told[0].startswith("page_size may not be 16 (--page-size)")
    assert told[1].startswith("sglang 0.5.23 has no --attention-backend")
    assert all(line.endswith("(says the installed parser itself)") for line in told)
