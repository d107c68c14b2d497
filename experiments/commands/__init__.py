"""The commands of ``faultline``, a module each, with `add_parser` and `execute`."""
