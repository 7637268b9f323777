"""The rules of a broker, pure: state, input and `now` go in, effects come out.

Nothing here opens a file, reads a clock, draws a random number, logs or communicates with another process.
"""
