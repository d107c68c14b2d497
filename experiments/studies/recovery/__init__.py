"""recoveries that operators have measured, from the phases of one model."""
