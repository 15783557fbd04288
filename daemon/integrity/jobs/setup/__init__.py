"""
Look at a machine and propose a configuration.

``folders`` finds disks and shares and samples what they hold, ``backups`` recognizes backups, ``look`` joins both and
computes how long verification takes, ``mail_ways`` finds out how mail can leave, ``proposal`` makes the configuration.
Nothing here writes.
"""
