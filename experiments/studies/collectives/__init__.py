"""bus bandwidths of NCCL's collectives, on platforms of published measurements."""
