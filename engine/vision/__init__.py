"""Pictures: opened, cut into patches, and encoded as features that stand in a prompt like tokens."""
