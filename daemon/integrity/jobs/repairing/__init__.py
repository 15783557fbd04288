"""
Put the recorded bytes of damaged files back from copies.

``wanted`` finds out what is meant, ``looking`` finds the damage, ``standing`` says whether it may be touched,
``lenders`` fetches good blocks, ``plan`` puts these together, ``making`` makes the good file, ``placing`` puts it in
the place of the damaged one, ``recovery`` ends what a kill left, ``job`` runs it all.
"""
