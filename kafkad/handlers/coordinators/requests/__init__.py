"""What the APIs of coordinators share: which module answers, whom a request is passed on to, how answers become one."""
