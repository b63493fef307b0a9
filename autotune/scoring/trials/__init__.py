"""Statistics over several trials: drift, confirmation, effects of factors."""
