"""Two configurations that are one server, and a server that is told to pretend, through the whole program."""

from pathlib import Path

from programs import autotune, small_space, trials

SPACE = """\
study: identity
engine:
  name: simulated
  model: imaginary/model
  args: {tp-size: 8, max-running-requests: 64}
  env: {ENGINE_ENV}
  node: {speed: 200, startup_s: 5, seed: 3}
baseline: {schedule_policy: unset, cuda_graph_max_bs: 128}
parameters:
  schedule_policy: [unset, fcfs]
  cuda_graph_max_bs: [128, 32]
workload:
  prompts: coding
  max_tokens: 32
  min_requests: 8
  concurrency: {1: 1, 4: 1}
objective: {metric: weighted_throughput}
budget: {trials: 4, confirm: off}
"""
PRETENCE = "SGLANG_SIMULATE_ACC_LEN"


def space(folder: Path, env: str = "{}") -> str:
    return str(small_space(folder, SPACE.replace("{ENGINE_ENV}", env)))


def test_a_configuration_that_resolves_to_a_known_server_is_not_measured_again(tmp_path: Path) -> None:
    done = autotune("run", "--space", space(tmp_path), "--no-mlflow", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    recorded = trials(tmp_path)
    by = {(t["configuration"]["schedule_policy"], t["configuration"]["cuda_graph_max_bs"]): t for t in recorded}
    original, duplicate = by[None, 128], by["fcfs", 128]
    assert original["duplicate_of"] is None
    assert duplicate["duplicate_of"] == original["number"] == 0
    assert duplicate["state"] == "complete"
    assert duplicate["measurements"] == original["measurements"]
    assert duplicate["score"] == original["score"]
    assert any("trial 0" in remark for remark in duplicate["remarks"])
    first, second = sorted((by[None, 32], by["fcfs", 32]), key=lambda trial: trial["number"])
    assert first["duplicate_of"] is None
    assert second["duplicate_of"] == first["number"]
    assert first["resolved_identity"] != original["resolved_identity"]

    folder = Path(next(path for path in (tmp_path / "runs").iterdir() if not path.is_symlink()))
    assert "## Configurations that are one server" in (folder / "report.md").read_text()
    sent = {t["number"]: list((folder / "trials" / f"{t['number']:04d}").glob("records-*")) for t in recorded}
    assert sent[original["number"]]
    assert sent[duplicate["number"]] == []


def test_a_resumed_study_knows_the_servers_of_before(tmp_path: Path) -> None:
    first = autotune("run", "--space", space(tmp_path), "--no-mlflow", "--trials", "1", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    more = autotune("run", "--resume", "latest", "--trials", "4", "--no-mlflow", cwd=tmp_path)
    assert more.returncode == 0, more.stderr
    assert 0 in [trial["duplicate_of"] for trial in trials(tmp_path)]


def test_a_resumed_study_ends_where_the_command_line_said_that_it_was_to_end(tmp_path: Path) -> None:
    first = autotune("run", "--space", space(tmp_path), "--no-mlflow", "--trials", "1", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    again = autotune("run", "--resume", "latest", "--no-mlflow", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert len(trials(tmp_path)) == 1


def test_simulated_acceptance_of_the_shell_never_reaches_the_server(tmp_path: Path) -> None:
    done = autotune(
        *("run", "--space", space(tmp_path), "--no-mlflow", "--trials", "1"), cwd=tmp_path, **{PRETENCE: "5.0"}
    )
    assert done.returncode == 0, done.stderr
    (trial,) = trials(tmp_path)
    assert PRETENCE not in trial["command"]["environment"]
    assert PRETENCE in trial["command"]["dropped"]
    assert trial["pretences"] == []
    assert "ACCEPTANCE SIMULATED" not in done.stdout


def test_simulated_acceptance_that_the_space_names_is_stamped_on_everything(tmp_path: Path) -> None:
    where = space(tmp_path, f'{{{PRETENCE}: "2.0"}}')
    done = autotune("run", "--space", where, "--no-mlflow", "--trials", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (trial,) = trials(tmp_path)
    assert trial["command"]["environment"][PRETENCE] == "2.0"
    assert trial["pretences"] == [f"{PRETENCE}=2.0"]
    assert f"acceptance simulated: {PRETENCE}=2.0" in trial["remarks"]
    assert "ACCEPTANCE SIMULATED" in done.stdout
    exported = autotune("export", cwd=tmp_path)
    assert "ACCEPTANCE SIMULATED" in exported.stdout
