"""Read and write digest lists in the formats of md5sum, BSD, hashdeep, BagIt, SFV and JSON lines."""
