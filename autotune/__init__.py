"""Finds the launch configuration that makes an LLM server fastest on its owner's own node, and proves it."""

__version__ = "0.1.0"
