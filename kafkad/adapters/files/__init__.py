"""Files and directories: segments, checkpoints, log directories, the runtime directory."""
