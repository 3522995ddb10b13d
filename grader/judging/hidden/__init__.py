"""Per unit: cases that students never see. `cases(exercise_id, rng)` draws sizes from the student's own seed."""
