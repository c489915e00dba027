/* SPDX-License-Identifier: MIT */
/*
** What each instruction set brings for weights of a few bits (core/cpu/simd/packed_dot.c).
*/
#ifndef RIDGE_CPU_PACKED_DOT_H
#define RIDGE_CPU_PACKED_DOT_H

#include <stdbool.h>
#include <stdint.h>

/* Tables by bits, and rows of x, or of weights for one row of x, at a time. */
enum { RG_PACKED_BITS = 9, RG_PACKED_ROWS = 4 };

/* A row of weights, groups one after the other; or several, with distances in bytes and groups. */
typedef struct rg_packed_row {
  const uint8_t *w;
  const float *scale; /* of each group */
  int64_t w_step;
  int64_t scale_step;
  int64_t groups;
  int64_t group; /* weights of one: 32, 64 or 128 */
  float less;    /* what a code has too much */
} rg_packed_row;

/* y = sum over groups of scale times that of code x, the codes with what they have too much: of one
** row of weights, or y[j] of four. */
typedef void rg_packed_dot_i8(const rg_packed_row *row, const int8_t *x, float *y);

/* By bits: by vpdpbusd (core/cpu/packed_vnni.c), or in pairs (core/cpu/packed_pairs.c). */
typedef struct rg_packed_bytes {
  const char *path;
  rg_packed_dot_i8 *one[RG_PACKED_BITS];
  rg_packed_dot_i8 *four[RG_PACKED_BITS];
} rg_packed_bytes;

#if defined(__x86_64__)
extern const rg_packed_bytes rg_packed_bytes_pairs;
#endif

/* NULL: no instruction multiplies bytes here, or it is not to be used. */
const rg_packed_bytes *rg_packed_bytes_now(void);

/* The same of x in f32, taken apart into digits (core/cpu/packed_digits.c), without what codes have
** too much. */
typedef struct rg_packed_digits {
  int64_t codes; /* of a step, */
  int64_t bytes; /* and what x takes in it */
  /* k numbers of x; false where one is no number, or a block of them too small */
  bool (*take)(const float *x, int64_t k, float less, void *to);
  void (*one)(const rg_packed_row *row, const void *x, float *y);
  void (*four)(const rg_packed_row *row, const void *x, float *y);
} rg_packed_digits;

/* NULL: other bits than 4 and 2, or no instruction for it. */
const rg_packed_digits *rg_packed_digits_now(int32_t bits);

/* y[r] = sum over groups of scale times that of (code - less) x[r]; rows of x are ldx apart. */
typedef void rg_packed_dot(const rg_packed_row *row, const float *x, int64_t ldx, float *y);

typedef struct rg_packed_kernels {
  rg_packed_dot *dot[RG_PACKED_BITS][RG_PACKED_ROWS + 1]; /* by bits and rows of x */
  rg_packed_dot *four[RG_PACKED_BITS]; /* y[j] for four rows of weights, and one of x */
  /* y = (code - less) scale + min, one behind the other; min: of each group, or NULL */
  void (*open[RG_PACKED_BITS])(const rg_packed_row *row, const float *min, float *y);
} rg_packed_kernels;

#endif
