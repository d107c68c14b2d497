"""When components fail: distributions, and the clocks that draw from them."""
