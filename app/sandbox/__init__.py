"""Running a program with as little reach as the machine allows."""
