"""The fast engine: phases of known duration, from event to event."""
