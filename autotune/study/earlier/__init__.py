"""What earlier studies teach this one."""
