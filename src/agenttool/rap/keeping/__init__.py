"""What a provider keeps through a crash: accepted calls, questions, subscriptions, grants, and messages to deliver."""
