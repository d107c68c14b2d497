"""When dropped groups return, by scheme."""

from __future__ import annotations

from faultline.experiments.config.scenario_file import load_scenario


def test_dropped_groups_return_as_the_source_of_the_scheme_has_it() -> None:
    """A stated rule holds for all schemes; otherwise replica drop alone takes groups back."""
    open_ = load_scenario("spare-sound", {"strategy.name": "replica-drop"})
    assert open_.rejoin.when == "at-checkpoint"
    assert "when" not in open_.stated().get("rejoin", {})
    assert open_.with_({"strategy.name": "spare"}).rejoin.when == "at-restart"
    assert open_.under("spare", "storage").rejoin.when == "at-restart"
    back = open_.under("spare", "storage").under("replica-drop", "gemini")
    assert (back.rejoin.when, back.protection.name) == ("at-checkpoint", "gemini")
    for when in ("at-restart", "at-checkpoint"):
        stated = load_scenario("spare-sound", {"rejoin.when": when})
        assert stated.under("replica-drop", "storage").rejoin.when == when
        assert stated.under("spare", "storage").rejoin.when == when
