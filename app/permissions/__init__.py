"""Who may do what: the gate, the rules, and the log of every decision."""
