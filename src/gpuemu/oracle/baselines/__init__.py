"""The oracles of other projects, as they publish them: what gpuemu is measured against.

`one_shape` holds those of study P1, `rules` those that judge any case (study P2, `gpuemu check --audit`).
"""

from gpuemu.oracle.baselines.one_shape import BASELINES, Baseline, accepts

__all__ = ["BASELINES", "Baseline", "accepts"]
