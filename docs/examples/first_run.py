"""Run one scenario, and print where its time went: python docs/examples/first_run.py."""

import faultline as fl

CAUSES = ("compute", "all_reduce", "redundancy", "repeated", "detection", "checkpoint", "restart")

record = fl.run("spare-sound", job__steps=200, seed=1)
print(
    f"goodput {record['goodput']:.1%}, {record['events']} failures, {record['restarts']} restarts"
)
for cause in CAUSES:
    print(f"{cause:>12} {record[f'{cause}_s'] / record['time_s']:6.1%}")

# The same failures under another scheme: the seed alone decides when groups fail.
other = fl.run("spare-sound", job__steps=200, seed=1, strategy__name="replication")
print(f"replication takes {other['time_s'] / record['time_s']:.2f} times as long")
