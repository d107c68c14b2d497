"""Sweep failure rates under two schemes, and draw it: python docs/examples/sweep_and_plot.py."""

import faultline as fl
import matplotlib.pyplot as plt

grid: dict[str, list[object]] = {
    "strategy.name": ["replication", "spare"],
    "failures.mtbf_s": [300, 600, 1200, 2400],
}
runs = fl.sweep("spare-sound", grid, seeds=2, job__steps=100, workers=1)
print(fl.compare(runs, baseline="replication"))

figure, axes = plt.subplots(layout="constrained")
for scheme, rows in runs.groupby("strategy.name"):
    rows.groupby("failures.mtbf_s")["goodput"].mean().plot(ax=axes, marker="o", label=scheme)
axes.set(xscale="log", xlabel="mean time between failures, s", ylabel="goodput")
axes.legend()
figure.savefig("sweep.png")
