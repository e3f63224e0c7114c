"""A place to run, on this machine or on many, who may join it, and the job script that makes one."""

from ask_dask.cluster.places import running_on
from ask_dask.cluster.security import make_certificates
from ask_dask.cluster.slurm import job_script

__all__ = ["job_script", "make_certificates", "running_on"]
