"""What is said of a subject: made once as a card, which is written for terminals, mails, pages, and programs."""
