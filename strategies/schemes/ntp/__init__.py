"""Nonuniform tensor parallelism: the decisions of its schemes in closed form.

Arfeen et al. 2025, Nonuniform-tensor-parallelism, arXiv 2504.06095. A data-parallel replica is a
pipeline of scale-up domains, with tensor parallelism inside each domain. GPUs fail one by one:

- DP-DROP drops a replica that has a failed GPU.
- NTP runs a replica with failed GPUs at a lower tensor-parallel degree and with a smaller local
  batch, so that it keeps up with the healthy ones.
- NTP-PW gives its surviving GPUs more power, so that the batch shrinks less or not at all.
"""
