"""Proofs of a log that is copied: they have counted up to a decision, which gets a new seq in the copy."""

from __future__ import annotations

from collections.abc import Iterable

from lim2.log.store import KeptProof


class NewSeqs:
    """Follows the copied decisions, and knows the last of them that each proof has counted."""

    def __init__(self, proofs: Iterable[KeptProof]) -> None:
        self._proofs = list(proofs)
        self._seqs = [0] * len(self._proofs)

    def add(self, before: int, after: int) -> None:
        """Note the seq of the next decision, in the source and in the copy."""
        for place, proof in enumerate(self._proofs):
            if before <= proof.seq:
                self._seqs[place] = after

    def proofs(self) -> list[KeptProof]:
        """Return the proofs as the copy has them."""
        return [proof._replace(seq=seq) for proof, seq in zip(self._proofs, self._seqs, strict=True)]
