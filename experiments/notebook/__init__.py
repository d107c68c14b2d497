"""What ``import faultline`` gives: functions, and what they return as a notebook shows it."""
