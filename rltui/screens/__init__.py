"""What fills the terminal: a file a screen, a folder for the one with tabs. Screens connect messages to widgets."""
