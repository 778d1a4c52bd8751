"""What an instructor needs: is each machine ready, who has got how far, one machine for a whole room."""
