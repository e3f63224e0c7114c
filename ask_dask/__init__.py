"""Learning with asymmetric kernels, out of core and distributed, on dask and zarr."""
