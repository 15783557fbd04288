"""
Alerts: told once per incident, through channels that may fail.

``delivery`` decides when something is said and sends it, ``compose`` writes it, ``channels`` knows the ways out, with a
module for each. What is to be sent stands in the catalog first (``catalog.outbox``).
"""
