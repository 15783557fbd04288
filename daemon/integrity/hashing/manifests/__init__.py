"""Read and write lists of digests in the formats of md5sum, BSD, hashdeep, BagIt, and SFV."""
