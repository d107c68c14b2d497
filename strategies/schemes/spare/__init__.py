"""SPARe: stacked parallelism with adaptive reordering."""
