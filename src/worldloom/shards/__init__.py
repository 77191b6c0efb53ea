"""Exact mixes of clips, packed as WebDataset shards, verified, and read back in a resumable order.

Import from the modules: `mix`, `compile`, `pack`, `loader`, `verify`; a training node needs `loader` alone.
"""
