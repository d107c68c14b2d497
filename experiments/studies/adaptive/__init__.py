"""Beyond the SPARe paper: checkpoints that follow the hazard, groups that rejoin, spare groups."""
