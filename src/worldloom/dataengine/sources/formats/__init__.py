"""Readers of public pose formats, one a file. Each turns a format into videos with VIDEO.poses.json beside them."""
