"""When a trial may end before its last level."""
