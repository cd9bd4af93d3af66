"""Buckets: the steps of an all-reduce for callers that move the bytes themselves."""

from __future__ import annotations

import ctypes
from typing import NamedTuple, Optional, Sequence

from . import _library
from ._library import CBucketSizes, CBucketVector


class Vector(NamedTuple):
    """One vector of a bucket: addresses in its memory space. 0: none."""

    x: int
    number: int  #: identifies the vector in random draws
    residual: int = 0
    pending: int = 0
    withheld: int = 0


class Bucket(_library.Handle):
    """Several vectors of float32 that share messages; bucket.h describes the steps.

    codec:   of fixed rate: "thc:bits=4", "sign", "fp16"
    values:  of each vector
    device:  number of the CUDA device whose memory has the vectors; None: host memory
    stream:  of the device; its calls only enqueue work
    """

    def __init__(
        self,
        codec: str,
        ranks: int,
        rank: int,
        values: Sequence[int],
        device: Optional[int] = None,
        stream: int = 0,
    ) -> None:
        super().__init__(_library.any_library(), "hcomp_bucket_free")
        sizes = CBucketSizes()
        self._library.call(
            "hcomp_bucket_create",
            _library.in_c(codec),
            ranks,
            rank,
            (ctypes.c_size_t * len(values))(*values),
            len(values),
            -1 if device is None else device,
            stream,
            ctypes.byref(self._pointer),
            ctypes.byref(sizes),
        )
        self._vectors = (CBucketVector * len(values))()
        self._given: Optional[Sequence[Vector]] = None
        self.part_bytes: int = sizes.part_bytes  #: of an encoded part, one per rank
        self.reduced_bytes: int = sizes.reduced_bytes  #: of a reduced part
        self.statistics_words: int = sizes.statistics_words
        self.gathers = bool(sizes.gathers)  #: encode takes the statistics of all ranks; no: maxima
        self.has_feedback = bool(sizes.feedback)

    def set_vectors(self, vectors: Sequence[Vector]) -> None:
        """Set the vectors of the next calls. The list must not change afterwards."""
        if vectors is self._given:
            return
        if len(vectors) != len(self._vectors):
            raise ValueError(f"{len(vectors)} vectors, the bucket has {len(self._vectors)}")
        for place, one in zip(self._vectors, vectors):
            place.x, place.number = one.x, one.number
            place.residual, place.pending, place.withheld = one.residual, one.pending, one.withheld
        self._given = vectors

    def measure(self, statistics: int) -> None:
        self._library.call("hcomp_bucket_measure", self.handle, self._vectors, statistics)

    def encode(self, step: int, statistics: int, out: int) -> None:
        self._library.call("hcomp_bucket_encode", self.handle, self._vectors, step, statistics, out)

    def merge(self, parts: int, out: int) -> None:
        self._library.call("hcomp_bucket_merge", self.handle, parts, out)

    def decode(self, reduced: int, step: int, mean: bool) -> None:
        self._library.call(
            "hcomp_bucket_decode", self.handle, reduced, self._vectors, step, mean
        )

    def decode_part(self, reduced: int, step: int, mean: bool) -> None:
        """Decode this rank's part, as ``merge`` writes it."""
        self._library.call(
            "hcomp_bucket_decode_part", self.handle, reduced, self._vectors, step, mean
        )

    def check(self, wait: bool = False) -> None:
        """Raise if a ``decode`` found damage. wait=False tells what is known without waiting."""
        self._library.call("hcomp_bucket_check", self.handle, wait)
