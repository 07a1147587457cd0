"""Guards: checks around a call that need no expected value, a file per guard.

`GUARDS` names all of them; each fires at most once a call and is named in the verdict as "guard:NAME".
"""

from __future__ import annotations

# Those that act beside the candidate, in its own process, and whose findings come with its answer.
SEEN_BESIDE = ("poison", "state", "late_work", "out_of_range")
FOR_STRANGERS = ("recall",)  # of no use on kernels that one trusts enough to run them inline
GUARDS = (
    "mutation", "red_zone", "alias", *SEEN_BESIDE, "repeat", "stale", "decoy", "recall",
    "batch_invariance",
)  # fmt: skip
