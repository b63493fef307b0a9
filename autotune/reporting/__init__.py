"""Layout: pure functions from a StudyResult to plain text and Markdown. Nothing here measures or launches."""

from autotune.reporting.changes import differences_from_baseline
from autotune.reporting.lines import level_line, trial_line
from autotune.reporting.markdown import experiment_note, markdown_report
from autotune.reporting.sections.alarms import alarm_line, alarms
from autotune.reporting.sections.front_views import clearness
from autotune.reporting.sections.fronts import best_at
from autotune.reporting.sections.nccl import nccl_table
from autotune.reporting.space import space_summary
from autotune.reporting.summary import summary
from autotune.reporting.tables import factor_table, failures_table, throughput_table
from autotune.reporting.terminal import terminal_report
from autotune.reporting.verdict import verdict
from autotune.reporting.versions import VersionEntry, version_comparison

__all__ = [
    "VersionEntry",
    "alarm_line",
    "alarms",
    "best_at",
    "clearness",
    "differences_from_baseline",
    "experiment_note",
    "factor_table",
    "failures_table",
    "level_line",
    "markdown_report",
    "nccl_table",
    "space_summary",
    "summary",
    "terminal_report",
    "throughput_table",
    "trial_line",
    "verdict",
    "version_comparison",
]
