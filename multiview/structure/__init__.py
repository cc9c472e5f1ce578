"""Structure: a vector of who did what to whom, alone or concatenated to an encoder's vector.

``forms``, ``poles`` and ``negation`` find the base and the sign of each word, ``binding`` binds words to
their roles, and ``joining`` and ``beside`` concatenate structure to other vectors.
"""

from multiview.structure.beside import with_structure as with_structure
