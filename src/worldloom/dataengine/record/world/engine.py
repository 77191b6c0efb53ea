"""Panda3D on Mesa's software renderer through EGL: no window, no display, no graphics card."""

from __future__ import annotations

import os
from functools import cache

from worldloom.schemas import ConfigError

os.environ.setdefault("LP_NUM_THREADS", "1")        # of Mesa: read when the driver starts

import panda3d.core as p3d  # noqa: E402

SETTINGS = """
load-display p3headlessgl
aux-display p3headlessgl
audio-library-name null
sync-video 0
gl-version 3 3
textures-power-2 none
notify-level-device fatal
notify-level-egldisplay fatal
notify-level-display error
"""
NO_EGL = ("cannot draw the world: EGL with OpenGL 3.3 did not open; install Mesa's (Debian: apt-get install libegl1 "
          "libgl1 libgl1-mesa-dri) or run ./dev setup")


@cache
def pipe() -> p3d.GraphicsPipe:
    """The one connection of this process to EGL.

    Raises:
        ConfigError: there is no EGL.
    """
    p3d.loadPrcFileData("worldloom", SETTINGS)
    p3d.CullBinManager.getGlobalPtr().setBinType("opaque", p3d.CullBinManager.BTFrontToBack)
    found = p3d.GraphicsPipeSelection.getGlobalPtr().makeModulePipe("p3headlessgl")
    if found is None or not found.isValid():
        raise ConfigError(NO_EGL)
    return found


def engine() -> p3d.GraphicsEngine:
    return p3d.GraphicsEngine.getGlobalPtr()


@cache
def host() -> p3d.GraphicsOutput:
    """A small buffer that owns the GL context; the others draw into textures within it.

    Raises:
        ConfigError: EGL gives no context.
    """
    made = engine().makeOutput(pipe(), "host", 0, _properties(0), p3d.WindowProperties.size(16, 16),
                               p3d.GraphicsPipe.BFRefuseWindow)
    if made is None:
        raise ConfigError(NO_EGL)
    engine().renderFrame()
    if not made.isValid() or made.getGsg().getDriverVersionMajor() < 3:
        raise ConfigError(NO_EGL)
    made.setActive(False)
    return made


def _properties(samples: int) -> p3d.FrameBufferProperties:
    properties = p3d.FrameBufferProperties()
    properties.setRgbaBits(8, 8, 8, 8)
    properties.setDepthBits(24)
    properties.setMultisamples(samples)
    return properties


def buffer(name: str, width: int, height: int, samples: int = 0) -> p3d.GraphicsOutput:
    """An off-screen buffer, drawn whenever it is active; earlier `sort` is drawn earlier."""
    made = engine().makeOutput(pipe(), name, 0, _properties(samples), p3d.WindowProperties.size(width, height),
                               p3d.GraphicsPipe.BFRefuseWindow, host().getGsg(), host())
    if made is None:
        raise ConfigError(f"{NO_EGL} (no buffer of {width}x{height})")
    made.setClearColorActive(True)
    return made


def depth_texture(name: str) -> p3d.Texture:
    texture = p3d.Texture(name)
    texture.setFormat(p3d.Texture.FDepthComponent32)
    texture.setWrapU(p3d.SamplerState.WMClamp)
    texture.setWrapV(p3d.SamplerState.WMClamp)
    return texture
