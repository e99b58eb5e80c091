"""The evaluation harness: model x sampling profile x strategy x scenario x trial, judged."""
