"""beyond SPARe: dynamic checkpoints, groups that rejoin, spares."""
