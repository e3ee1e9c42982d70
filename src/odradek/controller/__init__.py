"""Events in, effects out (`core`): elections, failures, moves, deletions. Pure, and imports `model` alone."""
