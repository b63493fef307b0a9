"""`python -m autotune` is `autotune`."""

from autotune.cli.main import main

main()
