"""Icons, styles and other files the program ships."""
