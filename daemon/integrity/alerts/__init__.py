"""
Send alerts: once per incident, through channels that may fail.

``incidents`` decides which alerts are due, ``compose`` writes them, ``delivery`` sends them, and ``channels`` makes the
channels, with a module for each. Every message is stored in the catalog before it is sent (``catalog.outbox``).
"""
