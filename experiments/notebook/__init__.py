"""The API of ``import faultline``: functions, and results that notebooks display."""
