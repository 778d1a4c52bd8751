"""What programs and machines outside of a launch said."""
