"""What speaks against a level, by one rule."""
