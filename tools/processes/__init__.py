"""Commands under a warden. Keep this file free of imports: the warden loads it under `python -I -S`."""
