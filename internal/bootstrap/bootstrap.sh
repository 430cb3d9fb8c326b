# The first process of a rented container.
