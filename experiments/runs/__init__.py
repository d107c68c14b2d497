"""Playing many runs: points, the one player, the one store, and where runs are played."""
