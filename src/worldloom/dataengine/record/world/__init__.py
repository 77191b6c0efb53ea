"""A procedural world drawn on the CPU: towns, rooms and hills with a true pinhole camera and truth for every frame.

Inside, the world is x right, y forward, z up, in metres; yaw is a compass heading in degrees (0 along y, right
positive) and pitch is up positive. What is written to files is canonical: x right, y down, z forward.
"""

from worldloom.dataengine.record.world.params import WorldParams
from worldloom.dataengine.record.world.record import record_world

__all__ = ["WorldParams", "record_world"]
