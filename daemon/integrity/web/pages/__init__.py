"""The pages: what each one reads, and the template that shows it."""
