"""The hammer: kills, damage, strange input, full disks and hostile folders, by the thousand.

    python -m tools.hammer --minutes 60
    python -m tools.hammer --targets fuzz. damage.shard --attempts 200 --seed 7
    python -m tools.hammer --replay damage.shard:7000012

A target tries one thing once, with a seed; the same seed makes the same input. What a command or a reader
may do is little: give what it would have given, or refuse in one line that names the file. Anything else is
a fault and is printed with the line that repeats it. (A kill falls at a time of the clock, so that a repeated
one may hit the neighbouring instruction.)
"""
