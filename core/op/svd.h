/* SPDX-License-Identifier: MIT */
/*
** The scratch memory of a device's singular value decomposition, by Jacobi's rotations of the
** matrix's vectors: its columns where it is tall, its rows where it is wide.
*/
#ifndef RIDGE_OP_SVD_H
#define RIDGE_OP_SVD_H

#include "op/op.h"

enum { RG_SVD_SWEEPS = 24 }; /* at most; about ten are usual */

/* Where things are, in bytes from the beginning. */
typedef struct rg_svd_room {
  int64_t vectors; /* [k x length] */
  int64_t bases;   /* [k x k]: the rotations, put together */
  int64_t norms;   /* [k] */
  int64_t parts;   /* [k] of a vector that is made again */
  int64_t scale;   /* f64[1] */
  int64_t order;   /* i32[k]: which vector is the i-th largest */
  int64_t rotated; /* i32[RG_SVD_SWEEPS]: did a sweep rotate anything */
  int64_t bytes;
} rg_svd_room;

/* For a matrix [m x n] of numbers of so many bytes. */
static inline rg_svd_room rg_svd_room_of(int64_t m, int64_t n, int64_t size)
{
  const int64_t k = m < n ? m : n;
  const int64_t length = m < n ? n : m;
  const int64_t bytes[7] = { k * length * size, k * k * size, k * size, k * size, 8, k * 4,
                             RG_SVD_SWEEPS * 4 };
  int64_t at[8] = { 0 };

  for (int i = 0; i < 7; i++) {
    at[i + 1] = at[i] + rg_round_up(bytes[i], 64);
  }
  rg_svd_room room = { at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7] };
  return room;
}

#endif
