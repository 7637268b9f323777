"""Files and directories: segments, checkpoints, log directories, the directory of the broker's sockets."""
