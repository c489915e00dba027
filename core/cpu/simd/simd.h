/* SPDX-License-Identifier: MIT */
/*
** Vector loops over contiguous runs, compiled once for each instruction set from the same plain C.
**
** Each file of this folder is compiled three times (RG_SIMD = base, avx2, avx512) and every object
** exports one constant table whose name ends in that word; core/cpu/table.c gathers them and
** rg_simd() picks by rg_isa().  Loops know six lane types; narrower floats (f16, bf16, f8e4m3,
** f8e5m2) are widened to f32 in tiles around them (core/cpu/tile.c) and bool runs as u8.
*/
#ifndef RIDGE_CPU_SIMD_H
#define RIDGE_CPU_SIMD_H

#include "op/list.h"
#include "tensor/tensor.h"

/* clang-format off */
/* name, lower-case name, C type */
#define RG_LANE_LIST(L)    \
  L(F32, f32, float)       \
  L(F64, f64, double)      \
  L(I64, i64, int64_t)     \
  L(I32, i32, int32_t)     \
  L(I8,  i8,  int8_t)      \
  L(U8,  u8,  uint8_t)
/* clang-format on */

#define RG_LANE_ENUM(NAME, name, T) RG_LANE_##NAME,
enum { RG_LANE_LIST(RG_LANE_ENUM) RG_LANE_COUNT };
#undef RG_LANE_ENUM

/* y[i] = f(a[i], b[i]); b is not read by functions of one input.  y may be a or b. */
typedef void rg_loop(void *y, const void *a, const void *b, int64_t n);

/* One value out of n. */
typedef void rg_fold(void *y, const void *x, int64_t n);

/* Which of two inputs is one element for the whole run. */
enum { RG_FORM_RUN_RUN, RG_FORM_RUN_ONE, RG_FORM_ONE_RUN, RG_FORM_COUNT };

#define RG_ONE_MORE(NAME, name, help, class) +1
enum {
  RG_UNARY_COUNT = 0 RG_UNARY_LIST(RG_ONE_MORE),
  RG_BINARY_COUNT = 0 RG_BINARY_LIST(RG_ONE_MORE)
};
#undef RG_ONE_MORE

typedef struct rg_simd_unary {
  /* by op id - RG_OP_NEG and the lane that x comes in; NULL where not defined */
  rg_loop *loop[RG_UNARY_COUNT][RG_LANE_COUNT];
} rg_simd_unary;

typedef struct rg_simd_binary {
  rg_loop *loop[RG_BINARY_COUNT][RG_LANE_COUNT][RG_FORM_COUNT]; /* by op id - RG_OP_ADD */
} rg_simd_binary;

typedef struct rg_simd_cast {
  rg_loop *loop[RG_LANE_COUNT][RG_LANE_COUNT]; /* from, to; saturates, nan to 0 */
  rg_loop *to_bool[RG_LANE_COUNT];
  rg_loop *widen[RG_DTYPE_COUNT];  /* by dtype, to f32; NULL but for floats narrower than that */
  rg_loop *narrow[RG_DTYPE_COUNT]; /* and back: to nearest, ties to even */
  rg_loop *f64_to_odd;             /* f64 to the f32 that narrow rounds as it would the f64 */
} rg_simd_cast;

enum { RG_FOLD_SUM, RG_FOLD_PROD, RG_FOLD_MAX, RG_FOLD_MIN, RG_FOLD_COUNT };

typedef struct rg_simd_reduce {
  rg_fold *fold[RG_FOLD_COUNT][RG_LANE_COUNT]; /* NULL where not needed: sums of i32, i8, u8 */
  /* y[i] = exp(a[i] - *b); y may be a */
  rg_loop *exp_shifted[2]; /* f32, f64 */
} rg_simd_reduce;

enum { RG_SIGN_ROWS = 64 };

/* Random numbers; see core/cpu/simd/random.c for which number becomes what. */
typedef struct rg_simd_random {
  /* numbers first .. first + n - 1 of a stream */
  void (*numbers)(uint64_t seed, uint64_t first, uint32_t *to, int64_t n);
  /* a block of fixed signs (rg_draw_signs) of each of n <= RG_SIGN_ROWS rows, four words a row; to
  ** has room for all RG_SIGN_ROWS */
  void (*signs)(uint64_t seed, uint32_t matrix, uint32_t row, uint32_t block, int64_t n,
                uint32_t *to);
  /* [0, 1) from one number (f32), two (f64) */
  void (*uniform_f32)(float *y, const uint32_t *x, int64_t n);
  void (*uniform_f64)(double *y, const uint32_t *x, int64_t n);
  /* standard normal from as many numbers as results (f32), twice as many (f64); n even */
  void (*normal_f32)(float *y, const uint32_t *x, int64_t n);
  void (*normal_f64)(double *y, const uint32_t *x, int64_t n);
} rg_simd_random;

/* The numbers of one optimizer step, the same for all elements. */
typedef struct rg_step_numbers {
  double scale;  /* of the gradients */
  double decay;  /* times the parameter, added to the gradient */
  double shrink; /* times the parameter, before the step */
  double rate;
  double beta1; /* of the first moment; of momentum */
  double beta2; /* of the second moment; what momentum takes in of the gradient */
  double root;  /* times the root of the second moment */
  double eps;
  double ahead; /* Nesterov's momentum */
  bool nesterov;
} rg_step_numbers;

/* A step over n elements of a parameter; unused states are NULL. */
typedef void rg_step_loop(void *param, const void *grad, void *const *state,
                          const rg_step_numbers *numbers, int64_t n);
typedef double rg_square_sum(const void *x, int64_t n);

/* By type: f32, f64. */
typedef struct rg_simd_step {
  rg_step_loop *sgd[2];
  rg_step_loop *adam[2];
  rg_step_loop *lion[2];
  rg_square_sum *square_sum[2];
} rg_simd_step;

/* Runs of a row in layer normalisation and softmax, by type: f32, f64. */
typedef struct rg_simd_norm {
  double (*sum[2])(const void *x, int64_t n);
  double (*squares[2])(const void *x, double mean, int64_t n); /* of x - mean */
  void (*apply[2])(void *y, const void *x, double mean, double scale, const void *weight,
                   const void *bias, int64_t n);
  /* adds to dw, db and sums: of dy w, and of that times (x - mean) scale */
  void (*back_sums[2])(const void *dy, const void *x, double mean, double scale, const void *weight,
                       void *dw, void *db, double sums[2], int64_t n);
  void (*back_apply[2])(void *dx, const void *dy, const void *x, double mean, double scale,
                        const void *weight, double a, double b, int64_t n);
  double (*dot[2])(const void *a, const void *b, int64_t n);
  void (*softmax_back[2])(void *dx, const void *dy, const void *y, double sum, int64_t n);
} rg_simd_norm;

/* Derivatives of activations times the incoming gradient: by RG_ACT_..., type and form. */
typedef struct rg_simd_act {
  rg_loop *back[RG_ACT_COUNT][2][RG_FORM_COUNT];
} rg_simd_act;

/* A tile of scores in attention, in f32. */
typedef struct rg_simd_attention {
  /* One more tile of each row: most is the largest so far, sum that of exp(x scale - most), shrink
  ** what sums made before are to be multiplied by; x becomes those exponentials, with coarse to
  ** 8e-5 of their value */
  void (*soften)(float *x, int64_t ldx, int64_t rows, int64_t n, float scale, bool coarse,
                 float *most, float *sum, float *shrink);
  /* x = exp(x scale - lse[column]) */
  void (*weights)(float *x, int64_t rows, int64_t n, float scale, const float *lse);
  /* dx = weight (dx - sum[column]) scale */
  void (*slopes)(float *dx, const float *weight, int64_t rows, int64_t n, float scale,
                 const float *sum);
} rg_simd_attention;

/* Pooling windows: n outputs side by side that see boxes of one size, a step apart. */
typedef struct rg_pool_box {
  int64_t n;
  int64_t step; /* distances in elements of the image */
  int64_t rows; /* of the box, not cut off anywhere */
  int64_t columns;
  int64_t row_step;
  int64_t column_step;
  int64_t width; /* places in a row of the image */
  int32_t here;  /* the first place of the box of output 0 */
  int32_t apart; /* places from one output's box to the next one's */
  double scale;  /* of averages */
} rg_pool_box;

/* By type: f32, f64.  image: the first element that output 0 sees. */
typedef struct rg_simd_pool {
  /* the largest, the first of equal ones, nan above all; index: its place, or NULL */
  void (*max[2])(const rg_pool_box *b, void *y, int32_t *index, const void *image);
  void (*avg[2])(const rg_pool_box *b, void *y, const void *image);
  void (*avg_back[2])(const rg_pool_box *b, void *image, const void *y); /* onto the image */
} rg_simd_pool;

/* Results of a convolution of stride 1, in f32, over an image with its padding around it. */
enum { RG_CONV_SLACK = 64 }; /* elements behind x and each channel of y that may be touched */
typedef struct rg_conv_run {
  int64_t n;        /* results of a channel, one behind the other */
  int64_t outs;     /* channels of y */
  int64_t channels; /* of x */
  int64_t rows;     /* of the kernel */
  int64_t columns;
  int64_t kernel;   /* channels x rows x columns: from one channel's kernel to the next one's */
  int64_t plane;    /* distances in elements: of channels of x */
  int64_t row_step; /* of neighbouring rows of the kernel, in x */
  int64_t column_step;
  int64_t y_step; /* of channels of y */
} rg_conv_run;

typedef struct rg_simd_conv {
  /* y without bias; x: what the kernel's first element sees of result 0 */
  void (*run)(const rg_conv_run *r, float *y, const float *x, const float *w);
} rg_simd_conv;

/* y[i] = cond[i] != 0 ? a[i] : b[i]; y may be a or b. */
typedef void rg_choose(void *y, const uint8_t *cond, const void *a, const void *b, int64_t n);

/* Which of a and b is one element for the whole run: bits of the form. */
enum { RG_CHOOSE_ONE_ON = 1, RG_CHOOSE_ONE_OFF = 2, RG_CHOOSE_FORMS = 4 };

typedef struct rg_simd_where {
  rg_choose *choose[4][RG_CHOOSE_FORMS]; /* elements of 1, 2, 4, 8 bytes */
} rg_simd_where;

/* Numbers as bytes and back; by lane: i8 and u8, from i32 too.  scale and zero are one number where
** step is 0, else one beside each element. */
typedef struct rg_simd_quantize {
  /* round(x / scale) + zero within least .. what the type holds; zero for nan */
  void (*to[RG_LANE_COUNT])(void *y, const float *x, const float *scale, const float *zero,
                            int64_t step, float least, int64_t n);
  /* (q - zero) scale */
  void (*from[RG_LANE_COUNT])(float *y, const void *q, const float *scale, const float *zero,
                              int64_t step, int64_t n);
  float (*largest)(const float *x, int64_t n); /* the largest magnitude, nan above all */
} rg_simd_quantize;

/* A block of rows x columns: element (r, c) of y, whose rows are y_row bytes apart, is element
** (c, r) of x, whose rows are x_column apart; elements of a row are adjacent. */
typedef void rg_transpose_block(char *y, int64_t y_row, const char *x, int64_t x_column,
                                int64_t rows, int64_t columns);

typedef struct rg_simd_transpose {
  rg_transpose_block *block[4]; /* elements of 1, 2, 4, 8 bytes */
} rg_simd_transpose;

typedef struct rg_simd_tables {
  const rg_simd_unary *unary;
  const rg_simd_binary *binary;
  const rg_simd_cast *cast;
  const rg_simd_reduce *reduce;
  const rg_simd_random *random;
  const rg_simd_step *step;
  const rg_simd_norm *norm;
  const rg_simd_act *act;
  const rg_simd_attention *attention;
  const rg_simd_pool *pool;
  const rg_simd_conv *conv;
  const rg_simd_transpose *transpose;
  const rg_simd_where *where;
  const rg_simd_quantize *quantize;
} rg_simd_tables;

/* By RG_ISA_... */
extern const rg_simd_tables rg_simd_by_isa[RG_ISA_COUNT];

/* The tables in use now. */
static inline const rg_simd_tables *rg_simd(void)
{
  return &rg_simd_by_isa[rg_isa()];
}

/* Inside the loops: nothing that one turn writes is read by another one (y may be x, exactly). */
#define RG_INDEPENDENT _Pragma("GCC ivdep")

/* The name of this object's table. */
#define RG_SIMD_PASTE(name, isa) name##_##isa
#define RG_SIMD_NAMED(name, isa) RG_SIMD_PASTE(name, isa)
#define RG_SIMD_NAME(name)       RG_SIMD_NAMED(name, RG_SIMD)

#endif
