"""Pictures with axes: matplotlib draws them."""
