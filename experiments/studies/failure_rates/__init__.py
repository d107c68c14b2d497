"""The SPARe study over failure rates: who trains soonest when something fails how often."""
