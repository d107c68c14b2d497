"""Collectives as NCCL runs them: bytes between pairs of GPUs, and latencies; no clock."""
