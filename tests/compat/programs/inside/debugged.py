"""The program for debuggers: a loop with names to ask for."""

total = 0
for number in range(1, 1000):
    total += number
    half = total / 2
print("end", total, half)
