"""What a vector knows of who did what to whom: tasks, readers, controls."""
