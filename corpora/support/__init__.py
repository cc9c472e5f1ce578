"""What every command shares: errors, exit codes, atomic files, progress."""
