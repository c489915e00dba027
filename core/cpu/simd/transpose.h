/* SPDX-License-Identifier: MIT */
/*
** Square tiles transposed in registers.
**
** Element (i, j) goes to (j, i): each bit of the row's number changes places with that bit of the
** lane's, one bit after the other, as bit matrices are transposed by blocks (Warren, Hacker's
** Delight, 7-3).  Which instructions exchange two halves is left to the compiler, which knows them
** for each instruction set.
*/
#ifndef RIDGE_CPU_SIMD_TRANSPOSE_H
#define RIDGE_CPU_SIMD_TRANSPOSE_H

#include "cpu/simd/vector.h"

/* Where lane l of rows i and i + d comes from: l of the one, n + l of the other. */
#define LANE_LOW(n, d, l)  (((l) & (d)) != 0 ? (n) + (l) - (d) : (l))
#define LANE_HIGH(n, d, l) (((l) & (d)) != 0 ? (n) + (l) : (l) + (d))

#define LANES_FROM_2(F, n, d, l)  F(n, d, l), F(n, d, (l) + 1)
#define LANES_FROM_4(F, n, d, l)  LANES_FROM_2(F, n, d, l), LANES_FROM_2(F, n, d, (l) + 2)
#define LANES_FROM_8(F, n, d, l)  LANES_FROM_4(F, n, d, l), LANES_FROM_4(F, n, d, (l) + 4)
#define LANES_FROM_16(F, n, d, l) LANES_FROM_8(F, n, d, l), LANES_FROM_8(F, n, d, (l) + 8)

#define EXCHANGE(name, N, d)                                                            \
  _Pragma("GCC unroll 16") for (int i = 0; i < (N); i++)                                \
  {                                                                                     \
    if ((i & (d)) == 0) {                                                               \
      name##_row low = r[i], high = r[i + (d)];                                         \
                                                                                        \
      r[i] = SHUFFLE(name##_lane, low, high, LANES_FROM_##N(LANE_LOW, N, d, 0));        \
      r[i + (d)] = SHUFFLE(name##_lane, low, high, LANES_FROM_##N(LANE_HIGH, N, d, 0)); \
    }                                                                                   \
  }

#define EXCHANGE_2(name, N)  EXCHANGE(name, N, 1)
#define EXCHANGE_4(name, N)  EXCHANGE(name, N, 2) EXCHANGE_2(name, N)
#define EXCHANGE_8(name, N)  EXCHANGE(name, N, 4) EXCHANGE_4(name, N)
#define EXCHANGE_16(name, N) EXCHANGE(name, N, 8) EXCHANGE_8(name, N)

/*
** name_tile(y, ldy, x, ldx): y[i][j] = x[j][i] for i, j < N, of elements of the size of T; I is the
** signed integer of that size, ldy and ldx are bytes from one row to the next.
*/
#define TRANSPOSED_TILE(name, T, I, N)                                                       \
  typedef T name##_row __attribute__((vector_size((N) * sizeof(T)), aligned(1), may_alias)); \
  typedef I name##_lane __attribute__((vector_size((N) * sizeof(T))));                       \
                                                                                             \
  ALWAYS_INLINE void name##_tile(void *y, int64_t ldy, const void *x, int64_t ldx)           \
  {                                                                                          \
    name##_row r[N];                                                                         \
                                                                                             \
    _Pragma("GCC unroll 16") for (int i = 0; i < (N); i++)                                   \
    {                                                                                        \
      r[i] = *(const name##_row *)((const char *)x + i * ldx);                               \
    }                                                                                        \
    EXCHANGE_##N(name, N) _Pragma("GCC unroll 16") for (int i = 0; i < (N); i++)             \
    {                                                                                        \
      *(name##_row *)((char *)y + i * ldy) = r[i];                                           \
    }                                                                                        \
  }

#endif
