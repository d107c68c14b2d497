"""Which spine switch a flow passes, where the fabric hashes flows instead of spraying them.

A flow is everything from one GPU to another, or between a GPU and the storage. All of it keeps to
one spine, as equal-cost multi-path routing (ECMP) keeps the packets of a connection in order: so
two flows can meet on one link while another is idle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from faultline.platforms import xml_names
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.topology import GpuPlace, gpu_places

ChooseSpine = Callable[[GpuPlace | None, GpuPlace | None], int]
"""The number of the spine between two GPUs; None stands for the storage."""


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
    choose = _choice(spec, places)
    for source in places:
        for destination in places:
            if source.domain != destination.domain and source.leaf != destination.leaf:
                yield source, destination, choose(source, destination)
        yield source, None, choose(source, None)
        yield None, source, choose(None, source)


def _choice(spec: ClusterSpec, places: Sequence[GpuPlace]) -> ChooseSpine:
    left = spec.scale_out.spines_left
    seed = spec.scale_out.routing_seed or 0
    # Leaf switch by leaf switch, so that neighbours below one are spread in turn on any rail.
    by_leaf = sorted(places, key=lambda place: (place.leaf, place.index))
    numbers = {place.index: number for number, place in enumerate(by_leaf)}

    def by_hash(source: GpuPlace | None, destination: GpuPlace | None) -> int:
        return left[hashed(_name(source), _name(destination), len(left), seed)]

    def by_destination(source: GpuPlace | None, destination: GpuPlace | None) -> int:
        # The storage is many servers: the client decides for both directions.
        gpu = destination or source
        return left[(numbers[gpu.index] if gpu else 0) % len(left)]

    return by_destination if spec.scale_out.routing == "d-mod-k" else by_hash


def _name(place: GpuPlace | None) -> str:
    return place.name if place else xml_names.STORAGE_HOST
