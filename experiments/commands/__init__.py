"""The commands of ``faultline``, a module each: `add_parser` declares one, its `execute` runs it."""
