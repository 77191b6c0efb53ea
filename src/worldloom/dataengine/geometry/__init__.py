"""Poses, their conventions, and smoothing."""
