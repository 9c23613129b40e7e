N, D, bytes_of_a_number = 8192, 64, 2          # one head, float16
bandwidth, products = 4800e9, 989e12           # an NVIDIA H200: bytes and 16-bit operations per second

operations = 2 * 2 * N * N * D                 # Q K^T and P V, a multiplication and an addition each
needed = 4 * N * D * bytes_of_a_number         # Q, K and V in, O out
scores = 4 * N * N * bytes_of_a_number         # S out and in again, P out and in again
for what, moved in ("Q, K, V, O alone", needed), ("with S and P", needed + scores):
    print(f"{what:17} {moved / 2**20:6.0f} MiB, {operations / moved:5.0f} operations per byte:",
          f"memory {1e6 * moved / bandwidth:4.1f} µs, products {1e6 * operations / products:.1f} µs")
