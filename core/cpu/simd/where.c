/* SPDX-License-Identifier: MIT */
/*
** Runs of one of two inputs, chosen element by element, by the size of an element: bits are moved.
** A run and one element each may stand on either side.
*/
#include "cpu/simd/simd.h"

/* a_step, b_step: 1 for a run, 0 for one element; constants, so that each form is a loop of its
** own. */
#define CHOOSE(T, a_step, b_step)                  \
  do {                                             \
    T *to = y;                                     \
    const T *p = a;                                \
    const T *q = b;                                \
                                                   \
    RG_INDEPENDENT for (int64_t i = 0; i < n; i++) \
    {                                              \
      T on = p[i * (a_step)];                      \
      T off = q[i * (b_step)];                     \
                                                   \
      to[i] = cond[i] != 0 ? on : off;             \
    }                                              \
  } while (0)

#define LOOP(bits, form, a_step, b_step)                                                         \
  static void choose_##bits##_##form(void *y, const uint8_t *cond, const void *a, const void *b, \
                                     int64_t n)                                                  \
  {                                                                                              \
    CHOOSE(uint##bits##_t, a_step, b_step);                                                      \
  }

#define LOOPS(bits)    \
  LOOP(bits, rr, 1, 1) \
  LOOP(bits, ro, 1, 0) \
  LOOP(bits, or, 0, 1) \
  LOOP(bits, oo, 0, 0)

LOOPS(8)
LOOPS(16)
LOOPS(32)
LOOPS(64)

#define ROW(bits)                                                                   \
  {                                                                                 \
    choose_##bits##_rr, choose_##bits##_or, choose_##bits##_ro, choose_##bits##_oo, \
  }

extern const rg_simd_where RG_SIMD_NAME(rg_simd_where);
const rg_simd_where RG_SIMD_NAME(rg_simd_where) = { .choose = { ROW(8), ROW(16), ROW(32),
                                                                ROW(64) } };
