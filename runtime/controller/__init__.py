"""Controllers at work: specs executed on real objects, by the same automata that the checker explores."""
