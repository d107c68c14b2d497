"""Which spine switch a flow passes, where the fabric hashes flows instead of spraying them.

A flow is everything from one GPU to another, or between a GPU and the storage. All of it keeps to
one spine, as equal-cost multi-path routing (ECMP) keeps the packets of a connection in order: so
two flows can meet on one link while another is idle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from faultline.platforms import xml_names
from faultline.platforms.spec import ClusterSpec, ScaleOut
from faultline.platforms.topology import GpuPlace, gpu_places


def hashed(source: str, destination: str, choices: int, seed: int = 0) -> int:
    """Return the hash of a flow between two hosts by name, from 0 to `choices` - 1.

    The first eight bytes of BLAKE2b over ``"seed:source>destination"`` as a big-endian number,
    modulo `choices`: the same on every machine and in every version of Python.
    """
    key = f"{seed}:{source}>{destination}".encode()
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return int.from_bytes(digest, "big") % choices


def spine_routes(spec: ClusterSpec) -> Iterator[tuple[GpuPlace | None, GpuPlace | None, int]]:
    """Yield source, destination and spine of every flow that passes a spine; None is the storage.

    Flows inside a domain take NVLink, those below one leaf switch turn there.
    """
    places = list(gpu_places(spec))
    choice = SpineChoice(spec.scale_out, places)
    for source in places:
        for destination in places:
            if passes_spines(source, destination):
                yield source, destination, choice.of(source, destination)
        yield source, None, choice.of(source, None)
        yield None, source, choice.of(None, source)


def passes_spines(source: GpuPlace, destination: GpuPlace) -> bool:
    """Tell whether flows between two GPUs leave both their domain and their leaf switch."""
    return source.domain != destination.domain and source.leaf != destination.leaf


class SpineChoice:
    """Chooses the spine of each flow among those left, as the fabric's `routing` says.

    Parameters
    ----------
    out
        The fabric; its routing is ``"ecmp"`` or ``"d-mod-k"``.
    places
        All GPUs.
    """

    def __init__(self, out: ScaleOut, places: Iterable[GpuPlace]) -> None:
        self._out = out
        self._left = out.spines_left
        # Leaf switch by leaf switch, so that neighbours below one are spread in turn on any rail.
        by_leaf = sorted(places, key=lambda place: (place.leaf, place.index))
        self._numbers = {place.index: number for number, place in enumerate(by_leaf)}

    def of(self, source: GpuPlace | None, destination: GpuPlace | None, connection: int = 0) -> int:
        """Return the number of the spine.

        Parameters
        ----------
        source, destination
            The two ends; None is the storage.
        connection
            Which of several connections between the two, whose hashes differ: as RDMA over several
            queue pairs has them. A platform has one.
        """
        if self._out.routing == "d-mod-k":
            # The storage is many servers: there the client decides for both directions.
            gpu = destination or source
            return self._left[(self._numbers[gpu.index] if gpu else 0) % len(self._left)]
        name = host_name(source) if connection == 0 else f"{host_name(source)}#{connection}"
        seed = self._out.routing_seed or 0
        return self._left[hashed(name, host_name(destination), len(self._left), seed)]


def host_name(place: GpuPlace | None) -> str:
    """Return the name of an end of a flow; None is the storage."""
    return place.name if place else xml_names.STORAGE_HOST
