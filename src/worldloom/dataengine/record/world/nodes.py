"""Meshes and pictures as nodes and textures of the drawing engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import panda3d.core as p3d

from worldloom.dataengine.record.world.mesh import VERTEX_NUMBERS, Mesh

LOOK = "look"               # tag that cameras of depth and shadow choose their program by
SOLID, LEAF = "solid", "leaf"


def texture_of(name: str, rgba_HWC: np.ndarray) -> p3d.Texture:
    """A repeating texture with mipmaps; the engine wants rows bottom up and blue first."""
    height, width, _ = rgba_HWC.shape
    texture = p3d.Texture(name)
    texture.setup2dTexture(width, height, p3d.Texture.TUnsignedByte, p3d.Texture.FRgba)
    texture.setRamImage(np.ascontiguousarray(rgba_HWC[::-1, :, [2, 1, 0, 3]]).tobytes())
    texture.setMinfilter(p3d.SamplerState.FTLinearMipmapLinear)
    texture.setMagfilter(p3d.SamplerState.FTLinear)
    return texture


def height_texture(name: str, height_HW: np.ndarray) -> p3d.Texture:
    """Numbers that programs read; rows from the bottom up."""
    height, width = height_HW.shape
    texture = p3d.Texture(name)
    texture.setup2dTexture(width, height, p3d.Texture.TFloat, p3d.Texture.FR32)
    texture.setRamImage(np.ascontiguousarray(height_HW, np.float32).tobytes())
    texture.setMinfilter(p3d.SamplerState.FTNearest)
    texture.setMagfilter(p3d.SamplerState.FTNearest)
    texture.setWrapU(p3d.SamplerState.WMClamp)
    texture.setWrapV(p3d.SamplerState.WMClamp)
    return texture


def program(vertex: str, fragment: str) -> p3d.Shader:
    return p3d.Shader.make(p3d.Shader.SLGLSL, vertex, fragment)


def vertex_format() -> p3d.GeomVertexFormat:
    columns = p3d.GeomVertexArrayFormat()
    for name, count, contents in (("vertex", 3, p3d.Geom.CPoint), ("normal", 3, p3d.Geom.CNormal),
                                  ("texcoord", 2, p3d.Geom.CTexcoord), ("tint", 4, p3d.Geom.COther)):
        columns.addColumn(p3d.InternalName.make(name), count, p3d.Geom.NTFloat32, contents)
    return p3d.GeomVertexFormat.registerFormat(p3d.GeomVertexFormat(columns))


def mesh_node(name: str, mesh: Mesh, textures: Mapping[str, p3d.Texture], cell_m: float = 0.0) -> p3d.NodePath:
    """A node with a child for each material, cut into level squares of `cell_m` so that unseen ones are not drawn."""
    root = p3d.NodePath(name)
    for material in mesh.parts:
        for vertices in _cells(mesh.vertices(material), cell_m):
            child = root.attachNewNode(_geometry(material, vertices))
            child.setTexture(textures[material])
            is_leaf = material.startswith(LEAF)
            child.setTag(LOOK, LEAF if is_leaf else SOLID)
            child.setTwoSided(is_leaf)
    return root


def _cells(vertices: np.ndarray, cell_m: float) -> Iterator[np.ndarray]:
    if not cell_m:
        yield vertices
        return
    middle_N2 = vertices.reshape(-1, 3, VERTEX_NUMBERS)[:, :, :2].mean(axis=1)
    _, cell_N = np.unique(np.floor(middle_N2 / cell_m).astype(int), axis=0, return_inverse=True)
    for cell in range(cell_N.max() + 1):
        yield vertices[np.repeat(cell_N.ravel() == cell, 3)]


def _geometry(name: str, vertices: np.ndarray) -> p3d.GeomNode:
    data = p3d.GeomVertexData(name, vertex_format(), p3d.Geom.UHStatic)
    data.uncleanSetNumRows(len(vertices))
    memoryview(data.modifyArray(0)).cast("B")[:] = np.ascontiguousarray(vertices).tobytes()
    triangles = p3d.GeomTriangles(p3d.Geom.UHStatic)
    triangles.addNextVertices(len(vertices))
    triangles.closePrimitive()
    geometry = p3d.Geom(data)
    geometry.addPrimitive(triangles)
    node = p3d.GeomNode(name)
    node.addGeom(geometry)
    return node
