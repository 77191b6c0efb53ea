"""Actions from camera tracks, their per-latent views, and the action grammar."""
