"""Guards: checks around a call that need no expected value, a file per guard.

`GUARDS` names all of them; each fires at most once a call and is named in the verdict as "guard:NAME".
"""

from __future__ import annotations

GUARDS = ("mutation", "alias", "repeat", "batch_invariance")
