"""``Job`` and ``Platform``: what is simulated, as a notebook shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.experiments.analysis.quantities import time_text
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.notebook.playing import scenario_with
from faultline.experiments.notebook.results import figure_html, rows_html, titled

if TYPE_CHECKING:
    from faultline.experiments.job.resolved_job import ResolvedJob
    from faultline.platforms.platform_data import Platform as PlatformData
    from matplotlib.figure import Figure


class Job:
    """A scenario with every value filled in: stated, derived, or measured on its platform.

    Parameters
    ----------
    scenario : str, Path or Scenario
        A shipped scenario's name, a TOML file, or a scenario.
    changes : mapping, optional
        Values by dotted keys.
    **more
        Changes as ``job__steps=500``.
    """

    def __init__(
        self,
        scenario: str | Path | Scenario,
        changes: Mapping[str, object] | None = None,
        /,
        **more: object,
    ) -> None:
        self.scenario = scenario_with(scenario, changes, more)

    @cached_property
    def resolved(self) -> ResolvedJob:
        """What the engines get."""
        from faultline.experiments.job.resolved_job import resolve

        return resolve(self.scenario)

    @property
    def gpus(self) -> int:
        """GPUs of all groups."""
        return self.scenario.job.all_gpus

    @property
    def step_s(self) -> float:
        """Time of an undisturbed step of all groups, in seconds."""
        return self.resolved.ideal_step_s

    @property
    def mfu(self) -> float | None:
        """Model FLOP of an undisturbed step over what the GPUs could do; None without a model."""
        from faultline.experiments.config.model_numbers import model_flop_utilisation

        return model_flop_utilisation(self.scenario, self.step_s)

    @property
    def redundancy(self) -> int:
        """Copies of each shard type: stated, or the best by closed forms."""
        return self.resolved.redundancy

    @property
    def checkpoint_interval_steps(self) -> int:
        """Steps between checkpoints: stated, or the best by closed forms."""
        return self.resolved.interval_steps

    def rows(self) -> list[tuple[str, str]]:
        """Return what the job is like, as names and values."""
        resolved = self.resolved
        table, durations, sources = self.scenario.job, resolved.durations, resolved.sources
        mfu = [] if self.mfu is None else [("MFU", f"{self.mfu:.1%}")]
        played = []
        if resolved.step is not None:
            parts = {one.name: getattr(resolved.step, one.name) for one in fields(resolved.step)}
            played = [
                (f"  {name.removesuffix('_s').replace('_', ' ')}", f"{value:.4g} s")
                for name, value in parts.items()
                if name.endswith("_s") and value
            ]
        return [
            ("GPUs", f"{self.gpus:,} in {table.groups:,} groups of {table.gpus_of_group:,}"),
            ("steps", f"{table.steps:,}"),
            (f"step ({sources['compute']})", f"{self.step_s:.4g} s"),
            *played,
            *mfu,
            ("without failures", time_text(table.steps * self.step_s)),
            ("a failure every", time_text(resolved.failures.mtbf_s)),
            (f"restart ({sources['restart']})", time_text(resolved.restart_s + durations.load_s)),
            (f"checkpoint ({sources['checkpoint']})", f"{durations.save_s:.4g} s"),
            ("checkpoint every", f"{self.checkpoint_interval_steps:,} steps"),
            ("scheme, redundancy", f"{self.scenario.strategy.name}, {self.redundancy}"),
            ("protection", self.scenario.protection.name),
        ]

    def __repr__(self) -> str:
        lines = (f"{name}: {value}" for name, value in self.rows())
        return "\n".join((self.scenario.name, *lines))

    def _repr_html_(self) -> str:
        return titled(self.scenario.name, rows_html(self.rows()))


class Platform:
    """A cluster: a SimGrid XML, or a shipped one by name.

    Parameters
    ----------
    file : str or Path
        A platform XML, or the name of a shipped cluster.
    **changes
        Of a shipped cluster: keys of its spec, dotted or short, such as ``domains=2``; two
        underscores stand for a dot.
    """

    def __init__(self, file: str | Path, /, **changes: Any) -> None:
        from faultline.platforms.errors import PlatformError
        from faultline.platforms.preset_library import load_preset, preset_names
        from faultline.platforms.xml_reader import read_platform
        from faultline.platforms.xml_writer import write_xml
        from faultline.simulator.cache_folder import cache_directory

        name = str(file)
        if name in preset_names():
            dotted = {key.replace("__", "."): value for key, value in changes.items()}
            spec = load_preset(name, **dotted)
            label = "-".join((name, *(f"{key}={value}" for key, value in sorted(dotted.items()))))
            path = cache_directory() / "platforms" / f"{label}.xml"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_xml(spec, path)
        elif changes:
            raise UserError(f"{name}: only shipped clusters are changed by keys; edit the XML")
        else:
            path = Path(file)
        self.path = path
        try:
            self.data: PlatformData = read_platform(path)
        except PlatformError as error:
            raise UserError(str(error)) from error

    @property
    def gpus(self) -> int:
        """GPUs that it stands for."""
        return len(self.data.gpus) * self.data.gpus_per_rank

    def save(self, path: str | Path) -> Path:
        """Copy its XML: a scenario's ``platform.file``, made to be edited."""
        Path(path).write_bytes(self.path.read_bytes())
        return Path(path)

    def figure(self) -> Figure:
        """Draw its topology."""
        from faultline.experiments.figures.platform_drawing import platform_figure

        return platform_figure(self.data)

    def __repr__(self) -> str:
        return f"Platform({str(self.path)!r}): {self.gpus:,} GPUs, {len(self.data.links):,} links"

    def _repr_html_(self) -> str:
        return figure_html(self.figure())
