"""Who did what to whom: words with their signs, bound to one vector, alone or beside an encoder's."""

from multiview.structure.beside import with_structure as with_structure
