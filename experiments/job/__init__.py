"""From a scenario to the way its state is kept: what snapshots cost, and when they are taken."""
