"""The baseline through the study, drift, and the finalists: what the verdict stands on."""
