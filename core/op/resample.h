/* SPDX-License-Identifier: MIT */
/*
** Arguments of resampling, and what each result is made of.
*/
#ifndef RIDGE_OP_RESAMPLE_H
#define RIDGE_OP_RESAMPLE_H

#include "op/op.h"

enum { RG_RESAMPLE_NEAREST, RG_RESAMPLE_LINEAR, RG_RESAMPLE_CUBIC, RG_RESAMPLE_MODES };

/* Where the middle of result i lies on the axis, from 0. */
enum {
  RG_COORDINATES_HALF_PIXEL,
  RG_COORDINATES_PYTORCH_HALF_PIXEL,
  RG_COORDINATES_ALIGN_CORNERS,
  RG_COORDINATES_ASYMMETRIC,
  RG_COORDINATES_HALF_PIXEL_SYMMETRIC,
  RG_COORDINATES_CROP,
  RG_COORDINATES_COUNT
};

/* What the nearest one is. */
enum { RG_ROUND_PREFER_FLOOR, RG_ROUND_PREFER_CEIL, RG_ROUND_FLOOR, RG_ROUND_CEIL, RG_ROUND_COUNT };

/* clang-format off */
#define RG_RESAMPLE_ARGS(A, S, AT) \
  A(S, AT, i32, axis, AXIS, -1, "which gets another size") \
  A(S, AT, i64, size, WHOLE, RG_REQUIRED, "the new one; of the gradient") \
  A(S, AT, i32, mode, WHOLE, 0, "0 nearest, 1 linear, 2 cubic") \
  A(S, AT, i32, coordinates, WHOLE, 0, "0 half pixel .. 5 crop") \
  A(S, AT, i32, rounding, WHOLE, 0, "of the nearest: 0, 1 ties to floor, ceil; 2 floor, 3 ceil") \
  A(S, AT, i32, antialias, FLAG, 0, "a wider kernel where the axis becomes shorter") \
  A(S, AT, i32, exclude, FLAG, 0, "what is outside has no weight; else the edge goes on") \
  A(S, AT, f64, scale, NUMBER, 0, "new size over old; 0: worked out") \
  A(S, AT, f64, cubic, NUMBER, -0.75, "coefficient of the cubic kernel") \
  A(S, AT, f64, first, NUMBER, 0, "of a crop: where it begins, as a share of the axis") \
  A(S, AT, f64, last, NUMBER, 1, "and ends") \
  A(S, AT, f64, value, NUMBER, 0, "what a crop has outside")
/* clang-format on */
RG_ARGS_STRUCT(rg_resample_args, RG_RESAMPLE_ARGS);

/* One result: the sum of n elements times their weights, beside a number. */
typedef struct rg_taps {
  int64_t n;
  double more;
} rg_taps;

/* How many elements a result may have. */
int64_t rg_resample_taps(const rg_resample_args *args, int64_t from, int64_t to);

/* Which elements of an axis of `from` result `at` of `to` is made of; index, weight: room for as
** many. */
rg_taps rg_resample_at(const rg_resample_args *args, int64_t from, int64_t to, int64_t at,
                       int64_t *index, double *weight);

#endif
