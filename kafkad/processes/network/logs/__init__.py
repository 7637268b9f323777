"""Logs as a network process reads them: files, look-ups and what is read ahead of sendfile."""
