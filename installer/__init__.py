"""Sets Sidelight up on a machine, starts it, and runs its checks; uses the standard library only."""
