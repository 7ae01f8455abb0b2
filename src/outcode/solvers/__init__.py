"""The compiled inner loops, one package per machine: numbers in, numbers and a certificate out."""
