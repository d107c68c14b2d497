"""MeCeFO, Bamboo and Oobleck on 32 GPUs: what failures cost each (MeCeFO, NeurIPS 2025)."""
