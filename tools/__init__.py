"""Tools of the project itself: they read the code or whole folders of savepoints, and are not part of the wheel."""
