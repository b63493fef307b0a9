"""From one window to a value with an interval, and when there is enough of it."""
