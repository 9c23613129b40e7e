from math import exp, sqrt

#            thing action animal  -
Q = {"cat":    [0, 1, 0, 0], "sleeps": [1, 0, 1, 0], "it":    [1, 0, 2, 0], "purrs": [2, 0, 1, 0]}
K = {"cat":    [2, 0, 2, 0], "sleeps": [0, 2, 0, 0], "it":    [2, 0, 0, 2], "purrs": [0, 2, 2, 0]}
V = {"cat":    [8, 0, 0, 0], "sleeps": [0, 8, 0, 0], "it":    [0, 0, 8, 0], "purrs": [4, 4, 0, 0]}


def show(token, S, P, O):
    print(f"{token:7}", "S", *(f"{s:2.0f}" for s in S), "  P", *(f"{p:.3f}" for p in P), "  O", *(f"{o:.3f}" for o in O))


for token, q in Q.items():
    S = [sum(a * b for a, b in zip(q, k)) / sqrt(len(q)) for k in K.values()]
    m = max(S)
    P = [exp(s - m) for s in S]
    l = sum(P)
    P = [p / l for p in P]
    O = [sum(p * v[d] for p, v in zip(P, V.values())) for d in range(4)]
    show(token, S, P, O)
