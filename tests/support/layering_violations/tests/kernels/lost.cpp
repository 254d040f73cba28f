// A test that tests nothing, for the check that must see it.
