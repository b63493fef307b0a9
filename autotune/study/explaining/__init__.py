"""What the trials say of the factors."""
