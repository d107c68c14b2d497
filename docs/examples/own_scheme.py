"""A scheme of your own, and the check that every scheme has to pass.

faultline --scheme-file docs/examples/own_scheme.py run spare-sound --set strategy.name=one-less
"""

from collections.abc import Sequence

from faultline.strategies.interface.scheme import (
    Continue,
    StepPlan,
    Strategy,
    Verdict,
    WipeOut,
)


class OneLess(Strategy):
    """The job goes on without its first failed group; the second failure restarts it."""

    name = "one-less"
    summary = "Goes on without one group, with a smaller batch"

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        remaining = tuple(group for group in self.plan().members if group not in missing)
        if len(remaining) < self.groups - 1:
            return WipeOut(tuple(missing))
        share = len(remaining) / self.groups
        self._plan = StepPlan(remaining, stacks=1, batch_share=share)
        return Continue(tuple(missing))

    def masked_failures(self) -> float:
        return 2.0

    def work_per_step(self) -> float:
        return 1.0


if __name__ == "__main__":
    # Imported here, because commands read this file while they import Faultline.
    from faultline.testing import check_scheme

    check_scheme(OneLess, groups=12, engines=False)
