/* SPDX-License-Identifier: MIT */
/*
** Which path the CPU takes for a product where rg_set_gemm_path leaves it to "auto", and which way
** for a convolution: measured for each on this machine, else expected to be the fastest
** (core/cpu/path_cost.c, core/cpu/conv_choice.c).
*/
#ifndef RIDGE_CHOICE_H
#define RIDGE_CHOICE_H

#include "ridge/op.h"

/* Paths of products on the CPU, in the order of their names above. */
enum { RG_GEMM_AUTO, RG_GEMM_ONEDNN, RG_GEMM_OPENBLAS, RG_GEMM_OWN, RG_GEMM_COUNT };

/* "auto"; path: RG_GEMM_..., "?" for any other number. */
RG_API const char *rg_gemm_name(int32_t path);

/* What a choice is of: a product; a convolution, its gradient for x, or for the weight. */
enum { RG_WORK_PRODUCT, RG_WORK_CONV, RG_WORK_CONV_DATA, RG_WORK_CONV_WEIGHT, RG_WORK_COUNT };

/* Ways of convolutions on the CPU: oneDNN on images brought to the layout that it likes best;
** oneDNN on images in place; ridge's own kernel of few channels; a matrix product (1 x 1); one
** whose rows are gathered by pointers (implicit GEMM). */
enum {
  RG_CONV_AUTO,
  RG_CONV_BLOCKED,
  RG_CONV_PLAIN,
  RG_CONV_TILES,
  RG_CONV_PRODUCT,
  RG_CONV_IMPLICIT,
  RG_CONV_COUNT
};
enum { RG_WAYS = RG_CONV_COUNT }; /* the most that any work has, RG_GEMM_COUNT for products */

/* "auto"; way: RG_CONV_..., "?" for any other number. */
RG_API const char *rg_conv_way_name(int32_t way);

/* The sizes of a convolution; of products all are 0. */
typedef struct rg_conv_shape {
  int64_t images, channels, outs, groups; /* channels of x and of the result, of all groups */
  int64_t size[2];                        /* rows and columns of x */
  int64_t kernel[2], stride[2], dilation[2], pad_low[2], pad_high[2];
} rg_conv_shape;

/*
** A product or a convolution, as far as it decides which path is the fastest, and how long each
** path took: medians and their 95 % confidence intervals in nanoseconds, by path (RG_GEMM_..., and
** RG_CONV_... of convolutions); 0 where it cannot do the work.
** ratio: time over that of the standard path, the median over the rounds, which stood side by side.
*/
typedef struct rg_choice {
  int64_t m, n, k;                   /* of a product; else 0 */
  rg_conv_shape conv;                /* of a convolution; else 0 */
  int32_t work;                      /* RG_WORK_... */
  int32_t layout;                    /* of a convolution: RG_NCHW, RG_NHWC */
  int32_t compute;                   /* RG_F32 or RG_BF16 (sums in f32) */
  int32_t a_dtype, b_dtype, c_dtype; /* of a convolution: its inputs and its result */
  int32_t a_across; /* 1: neighbours in a column of a are adjacent, not those in a row */
  int32_t b_across;
  int32_t kept;     /* 1: b is a parameter, whose packed form is kept */
  int32_t epilogue; /* 1: more than a bias and an activation; of a convolution: there is one */
  int32_t threads, isa;
  int32_t path;     /* the one that "auto" takes */
  int32_t standard; /* and would take without this; 0: not known */
  int32_t rounds;
  int64_t at; /* when it was measured: microseconds since 1970; 0: not known */
  double ns[RG_WAYS], lo[RG_WAYS], hi[RG_WAYS];
  double ratio[RG_WAYS], ratio_lo[RG_WAYS], ratio_hi[RG_WAYS];
} rg_choice;

/* What chose the path of a product: times of this process or of another one whose times are known
** (MEASURED) or not (GIVEN); what was fitted here to other products (PROBED: another path than the
** standard one) or what is built in (EXPECTED); rg_set_gemm_path (FORCED); that
** rg_device_modes.deterministic was on, with which only the standard path is taken (PINNED); that
** no other path does it (ONLY). */
enum {
  RG_BY_NONE,
  RG_BY_MEASURED,
  RG_BY_GIVEN,
  RG_BY_PROBED,
  RG_BY_EXPECTED,
  RG_BY_FORCED,
  RG_BY_PINNED,
  RG_BY_ONLY,
  RG_BY_COUNT
};

/*
** While on, a product of this thread that "auto" decides, or a convolution, that has not been
** measured is run by each path in turn, `rounds` times, and the fastest is remembered for this
** process.  A path other than the default one has to be faster in nearly every round: 95 %
** confidence for the median of the rounds' ratios.  With rg_device_modes.deterministic on nothing
** is measured, and what was measured is not taken: results then do not depend on what a clock said.
**
** rounds   at least 6; 0: off
** Returns what was set before.
*/
RG_API int32_t rg_tuning(int32_t rounds);

/*
** keeps    0: while tuning is on, this thread measures also what has been measured, and remembers
**          none of it; only who watches is told (rg_paths_watch).  1: as told above
** Returns what was set before.
*/
RG_API int32_t rg_tuning_keeps(int32_t keeps);

/* How many products and convolutions have been measured; out: the i-th of them (RG_EARG outside
** 0 .. n - 1). */
RG_API int64_t rg_choices(void);
RG_API rg_status rg_choice_at(int64_t i, rg_choice *out) RG_CHECK;

/* Remember what was measured elsewhere, in place of what there is of the same work; times may be
** missing.  A path that turns out not to do it here is not taken.  RG_EARG for a path or work that
** is none, RG_ENOMEM. */
RG_API rg_status rg_choice_put(const rg_choice *choice) RG_CHECK;

/*
** While on, what "auto" decides on this thread is written down: each product that is prepared, with
** what is known of it; rounds and times are 0 where it was not measured.  Turning it on or off
** forgets what there is.  Returns what was set before.
*/
RG_API int32_t rg_paths_watch(int32_t on);

/* How many decisions were written down; out: the i-th of them (RG_EARG outside 0 .. n - 1). */
RG_API int64_t rg_paths_seen(void);
RG_API rg_status rg_path_seen_at(int64_t i, rg_choice *out) RG_CHECK;

/* The version of what computes by a path, "3.2.1": a library, or ridge for RG_GEMM_OWN; "" for a
** number that is no path. */
RG_API const char *rg_gemm_path_version(int32_t path);

/* 1: OpenBLAS runs kernels of AVX2 or more, or was not built for x86; 0: it is older than this
** processor, does not know it, and runs those of SSE3, or was told to (OPENBLAS_CORETYPE).  Then
** nothing is expected of it, and it computes what nothing else does. */
RG_API int32_t rg_blas_is_recent(void);

/*
** What products of one kind are expected to take by each path, fitted to products that were
** measured on this machine: nanoseconds for each of rg_path_terms.  A path whose numbers are all 0
** does none.
*/
enum { RG_PATH_TERMS = 9, RG_PATH_ROWS = 4 };
typedef struct rg_path_costs {
  int32_t compute; /* RG_F32 or RG_BF16, of both factors and the result */
  int32_t kept;    /* 1: b is a parameter, whose packed form is kept */
  int32_t threads, isa;
  double ns[RG_GEMM_COUNT][RG_PATH_TERMS];
} rg_path_costs;

/* out: the terms of a product of m x k by k x n, computed in a type (RG_F32, RG_BF16), by a path: a
** call, m n k, m n, m k, k n, m, n and what is paid for parts of panels (core/cpu/path_cost.c).
** compute, path: which. */
RG_API void rg_path_terms(int64_t m, int64_t n, int64_t k, int32_t compute, int32_t path,
                          double out[RG_PATH_TERMS]);

/*
** Let "auto" choose by these where a product was not measured itself, in place of what there is for
** the same kind.  A path other than the default one has to be expected to be faster by a tenth.
** Products of fewer rows than RG_PATH_ROWS keep the default one: their time is no sum of these.
** RG_EARG for numbers that are below 0 or no numbers, for another type, and where there are none.
*/
RG_API rg_status rg_path_costs_put(const rg_path_costs *costs) RG_CHECK;

/* The path that such numbers, in force or not, choose for a product of m x k by k x n whose default
** one is `standard`.  costs: as rg_path_costs_put takes them; threads and isa are not read. */
RG_API int32_t rg_path_costs_choose(const rg_path_costs *costs, int64_t m, int64_t n, int64_t k,
                                    int32_t standard);

/* How many kinds there are; out: the i-th of them (RG_EARG outside 0 .. n - 1). */
RG_API int64_t rg_path_costs_count(void);
RG_API rg_status rg_path_costs_at(int64_t i, rg_path_costs *out) RG_CHECK;

/* Let "auto" take its default paths again: what was measured and what was fitted is forgotten. */
RG_API void rg_choices_forget(void);

#endif
