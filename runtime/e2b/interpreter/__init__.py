"""The code interpreter of the wire: contexts are kernels, executions are cells."""
