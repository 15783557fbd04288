"""
Look at a machine and propose a configuration.

``data_folders`` finds disks and shares, ``contents`` samples what they hold, ``backups`` recognizes backup copies,
``workload`` computes how long verification takes, ``mail_ways`` finds out how mail can leave, ``proposal`` makes the
configuration. Nothing here writes.
"""
