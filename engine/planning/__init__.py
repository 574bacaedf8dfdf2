"""What the memory planner is made of: formulas, the files it reads, every part in its place, and words."""
