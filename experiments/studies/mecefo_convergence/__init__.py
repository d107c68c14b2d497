"""what approximate gradients cost: a language model trained under MeCeFO's take-overs (JAX)."""
