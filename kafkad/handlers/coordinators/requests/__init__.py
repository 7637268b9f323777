"""What the APIs of coordinators share: the module that answers, the internal partition of a request, joined answers."""
