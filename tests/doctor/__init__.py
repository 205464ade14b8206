"""`dashpot doctor`: incidents planted on running servers, and its rules by tables."""
