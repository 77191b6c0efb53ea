"""Backbones and what they are conditioned on."""
