from __future__ import annotations

from importlib import metadata

import pytest

from autotune import engines
from autotune.engines import registry
from autotune.errors import InputError


def register(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    registered = metadata.EntryPoints(metadata.EntryPoint(name, value, registry.GROUP) for name, value in points)
    monkeypatch.setattr(metadata, "entry_points", lambda **wanted: registered.select(**wanted))


def test_the_engines_that_ship_with_the_tuner_are_registered_like_any_plugin() -> None:
    assert {"sglang", "simulated"} <= set(engines.names())
    assert engines.get("simulated").simulated
    assert not engines.get("sglang").simulated


def test_an_unknown_name_is_refused_with_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        engines.get("sgland")
    assert "sglang, simulated" in caught.value.message
    assert caught.value.hint == "did you mean sglang?"


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(InputError) as caught:
        engines.get("zzz")
    assert caught.value.hint == ""


def test_names_imports_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, ("broken", "no_such_module_at_all:create"))
    assert engines.names() == ("broken",)


def test_a_plugin_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, ("broken", "no_such_module_at_all:create"))
    with pytest.raises(InputError, match="no_such_module_at_all:create, but cannot be loaded"):
        engines.get("broken")


def test_one_name_for_two_engines_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, ("twin", "autotune.engines.sglang:create"), ("twin", "autotune.engines.simulated:create"))
    with pytest.raises(InputError, match="must name one engine"):
        engines.get("twin")


def test_one_engine_registered_twice_alike_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, ("same", "autotune.engines.sglang:create"), ("same", "autotune.engines.sglang:create"))
    assert engines.get("same").name == "sglang"
