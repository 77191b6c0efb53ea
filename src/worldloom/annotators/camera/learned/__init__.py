"""Learned camera models: readers of the outputs that they leave, and loaders that run them."""
