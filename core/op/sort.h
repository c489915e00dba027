/* SPDX-License-Identifier: MIT */
/*
** Arguments of putting in order, and how its work is cut.
*/
#ifndef RIDGE_OP_SORT_H
#define RIDGE_OP_SORT_H

#include "op/op.h"

/* clang-format off */
#define RG_SORT_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, -1, "along which it sorts") \
  A(S, AT, i32, descending, FLAG, 0, "the largest first")
#define RG_TOPK_ARGS(A, S, AT) \
  A(S, AT, i64, k, WHOLE, RG_REQUIRED, "how many") \
  A(S, AT, i32, axis, AXIS, -1, "along which it looks") \
  A(S, AT, i32, largest, FLAG, 1, "the largest; else the smallest")
/* clang-format on */
RG_ARGS_STRUCT(rg_sort_args, RG_SORT_ARGS);
RG_ARGS_STRUCT(rg_topk_args, RG_TOPK_ARGS);

/* An element in a form that is compared as a whole number, and where it stood. */
typedef struct rg_sort_key {
  uint64_t key;
  int64_t at;
} rg_sort_key;

/* Scratch for one row of n: keys twice, and the elements. */
static inline int64_t rg_sort_room(int64_t n)
{
  return rg_round_up(n * (int64_t)(2 * sizeof(rg_sort_key) + 8), 64);
}

/* Rows are sorted in so many parts, each with its own scratch: 64 MB of it in all are enough. */
static inline int64_t rg_sort_parts(int64_t rows, int64_t n)
{
  const int64_t most = 64;
  const int64_t bytes = 64 << 20;

  return rg_max_i64(1, rg_min_i64(rg_min_i64(rows, most), bytes / (rg_sort_room(n) + 1)));
}

#endif
