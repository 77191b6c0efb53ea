"""What one recorded episode is: everything that decides its pictures, and the name of its file."""

from __future__ import annotations

from dataclasses import dataclass

from worldloom.dataengine.record.cells import check_cell_weights
from worldloom.dataengine.record.policy import KINDS
from worldloom.schemas import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeParams:
    """One episode. Equal parameters give equal poses, keys and events.

    `width` and `height` are those of the file. With `pinhole` the engine draws a larger, wider picture
    (`fov_deg` is then fixed), which is rectified to a true pinhole camera of horizontal view `hfov_deg`.
    """
    map: str = "map01"
    seed: int = 1
    tics: int = 700                 # frames at 35 a second; death or the map's exit may end it sooner
    policy: str = "mixed"
    width: int = 320
    height: int = 240
    hud: bool = False
    weapon: bool = False
    pinhole: bool = False
    fov_deg: float = 90.0
    hfov_deg: float = 75.0
    third_person: bool = False
    skill: int = 2                  # 1 (easiest) to 5
    wad: str = "freedoom2.wad"
    scenario: str = ""              # a small world of its own that comes with the engine, such as my_way_home
    immortal: bool = True           # damage is taken and shown, and health stays above 0
    cell_weights: tuple[float, ...] = ()    # of policy `thin`: how often each of coverage.CELLS is held

    def __post_init__(self) -> None:
        if self.policy not in KINDS:
            raise ConfigError(f"unknown policy {self.policy!r}; known: {', '.join(KINDS)}")
        check_cell_weights(self.policy, self.cell_weights)
        if self.tics < 2:
            raise ConfigError(f"an episode of {self.tics} tics has no motion; give at least 2")
        if not 1 <= self.skill <= 5:
            raise ConfigError(f"skill {self.skill} is not in 1 to 5")
        if self.pinhole and (self.hud or self.weapon or self.third_person):
            raise ConfigError("pinhole rectification needs a picture without hud, weapon and player sprite")
        if not 20 <= self.fov_deg <= 130 or not 20 <= self.hfov_deg <= 80:
            raise ConfigError(f"fov {self.fov_deg:g} must be in 20 to 130, pinhole hfov {self.hfov_deg:g} in 20 to 80")

    @property
    def name(self) -> str:
        """File name without suffix."""
        place = f"{self.scenario}_{self.map}" if self.scenario else self.map
        return f"vizdoom_{place}_{self.policy}_{self.seed}"
