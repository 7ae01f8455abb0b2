"""The application: command line, terminal, studies, reports and the papers' experiments."""
