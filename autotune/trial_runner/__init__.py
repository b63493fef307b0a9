"""One configuration → one TrialResult: launch, prove, measure, stop. The one place where an error becomes data."""

from autotune.trial_runner.runner import TrialRunner
from autotune.trial_runner.site import TrialSite

__all__ = ["TrialRunner", "TrialSite"]
