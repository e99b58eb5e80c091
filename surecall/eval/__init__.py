"""The evaluation harness: model × sampling profile × strategy × scenario × trial, judged."""
