"""What disks and arrays report of themselves: SMART, md, btrfs, ZFS."""
