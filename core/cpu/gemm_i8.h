/* SPDX-License-Identifier: MIT */
/*
** ridge's own product of bytes, c = epilogue(a b): exact sums in 32 bits of any rows of bytes,
** those of a matrix or those of an image that a kernel sees.
**
** All kernels multiply unsigned a by signed b.  Where a is signed its sign bits are flipped, which
** adds 128 to each element; so does a zero point.  What either adds to a sum is a multiple of the
** column's own sum, which is packed with b.  Sums wrap, so they are right wherever the result fits.
*/
#ifndef RIDGE_CPU_GEMM_I8_H
#define RIDGE_CPU_GEMM_I8_H

#include "cpu/gemm.h"

enum {
  RG_I8_STEP = 4,       /* steps of the inner axis that are packed side by side */
  RG_I8_ROWS_MOST = 32, /* rows of a tile: two tile registers of AMX */
};

/* c[r, 0..31] = sum_l a[r, l] b[l, 0..31]; rows of c are 32 apart, those of a lda bytes.  l passes
** over parts of so many steps, which lie part bytes apart in a.  next: what will be read soon. */
typedef struct rg_i8_run {
  int64_t parts;
  int64_t part;
  int64_t steps;
  int64_t lda;
} rg_i8_run;
typedef void rg_tile_i8(const rg_i8_run *run, const uint8_t *a, const int8_t *b, int32_t *c,
                        const char *next);

/* Sums whose epilogue is left to do: rows i .. i + rows of a product from column j on. */
typedef struct rg_i8_product rg_i8_product;
typedef struct rg_i8_left {
  const rg_i8_product *p;
  const int32_t *sums;
  const int32_t *fix;
  int64_t i, rows, j;
  int64_t until; /* so many rows of sums are side by side, then gap of them are no results, */
  int64_t run;   /* and so on with so many */
  int64_t gap;
} rg_i8_left;

/* Rows of results that are run long, gap apart. */
typedef struct rg_i8_gaps {
  int64_t run, gap;
} rg_i8_gaps;

/* What each instruction set brings: by tile registers (gemm_amx_i8.c), by vpdpbusd (gemm_vnni.c),
** or by products of 16 bits that are added up in pairs (core/cpu/simd/gemm_i8.c).  vpmaddubsw would
** be shorter, and saturates. */
typedef struct rg_i8_kernels {
  const char *path;
  rg_tile_i8 *tile[RG_I8_ROWS_MOST + 1]; /* by rows */
  int32_t rows_most;
  int32_t width; /* bytes that an element of a takes as they read it: 1 or 2 */
  /* a row of k bytes, each flipped by those bits, as they read it; what is behind k in its last
  ** step is 0.  to may be from where the width is 1. */
  void (*row)(uint8_t *to, const uint8_t *from, int64_t k, uint8_t flip);
  /* NULL, or a tile that also finishes what is left: other units of the processor do that while
  ** tile registers multiply */
  void (*beside)(int64_t rows, const rg_i8_run *run, const uint8_t *a, const int8_t *b, int32_t *c,
                 const char *next, rg_i8_left *left);
  /* NULL, or what a thread calls after its tiles: gives the tile registers back */
  void (*leave)(void);
} rg_i8_kernels;

/* What a panel of bytes is made with: as rg_i8_end says. */
typedef struct rg_i8_scales {
  const float *x_scale, *w_scale, *bias;
  int64_t x_step;
  float y_scale, y_zero;
  int32_t act; /* RG_ACT_NONE, RELU or RELU6 */
} rg_i8_scales;

/* What follows the product, over 32 columns at a time; and the sum of a column. */
typedef struct rg_i8_end {
  /* y = (sum + fix) x_scale w_scale + bias; rows of y are ldy apart, x_scale of row r is
  ** x_scale[r step] */
  void (*scale)(float *y, int64_t ldy, const int32_t *sum, int64_t rows, const int32_t *fix,
                const float *x_scale, int64_t step, const float *w_scale, const float *bias);
  /* bytes of round(x (1 / scale)) + zero, saturated; nan becomes zero */
  void (*to_i8)(int8_t *y, const float *x, int64_t n, float scale, float zero);
  void (*to_u8)(uint8_t *y, const float *x, int64_t n, float scale, float zero);
  /* both, with ReLU or ReLU6 between them where that is asked for, for rows of y that are ldy
  ** apart; by whether y is signed */
  void (*panel[2])(uint8_t *y, int64_t ldy, const int32_t *sum, int64_t rows, const int32_t *fix,
                   const rg_i8_scales *s);
  int32_t (*total)(const int8_t *x, int64_t n); /* the sum */
  /* For each of some rows r and each column c of a panel the sum over n pairs of taps:
  ** sum[r][c] = that of (x[t][r step + c] - zero) w[t][c] over t < 2 n; by whether x is signed.
  ** w: a panel of lanes for each pair, w[2 t][c] in the lower 16 bits and w[2 t + 1][c] above; lane
  ** l is for column depth_column[l] */
  void (*depth[2])(int32_t *sum, int64_t rows, int64_t n, const uint8_t *const *x, int64_t step,
                   const int32_t *w, int32_t zero);
  const uint8_t *depth_column;
} rg_i8_end;

/* Rows as they are, but for their flipped bits: row of the sets whose width is 1. */
void rg_i8_copy_row(uint8_t *to, const uint8_t *from, int64_t k, uint8_t flip);

/* What a thread does after its last tile. */
void rg_i8_leave(const rg_i8_kernels *kernels);

/* The kernels of the instruction set in use. */
const rg_i8_kernels *rg_i8_kernels_now(void);
const rg_i8_end *rg_i8_end_now(void);

/* Kernel set number i, for tests: NULL from their number on, and those that this machine has not
** are left out. */
const rg_i8_kernels *rg_i8_kernels_at(int32_t i);

/* -- The right factor ------------------------------------------------------------------ */

/* b as rows: one of k bytes for each of n columns of the product. */
typedef struct rg_i8_weight {
  const int8_t *data;
  rg_storage *storage;
  int64_t n;
  int64_t n_step;  /* distances in bytes */
  int64_t size[3]; /* the inner axis: k is their product, the last is the innermost */
  int64_t step[3];
  bool keeps; /* a weight: its packed form is worth keeping */
} rg_i8_weight;

/* Panels of 32 columns; each is followed by the sums of its columns. */
typedef struct rg_i8_packed {
  const int8_t *data;
  rg_block room; /* where it is not kept with the storage */
} rg_i8_packed;

int64_t rg_i8_depth(int64_t k); /* in steps */
int64_t rg_i8_panel_bytes(int64_t k);
rg_status rg_i8_pack(const rg_i8_weight *w, int32_t n_threads, rg_i8_packed *out) RG_CHECK;
void rg_i8_unpack(rg_i8_packed *packed);

/* -- The product ------------------------------------------------------------------------- */

/* Rows i0 .. i1 of a as the kernels read them, ld bytes apart. */
typedef void rg_i8_fill(const void *context, const rg_i8_kernels *kernels, int64_t i0, int64_t i1,
                        uint8_t *to, int64_t ld);

struct rg_i8_product {
  int64_t m, n, k;
  int32_t n_threads;
  rg_i8_fill *fill;
  const void *context;
  const int8_t *b; /* packed */
  int32_t offset;  /* that is in every element of a */
  /* the epilogue: y = act((a b) x_scale w_scale + bias), in the type of y */
  const float *x_scale;
  int64_t x_step;       /* 0: one for all rows, else 1 */
  const float *w_scale; /* n, and as many more as round n up to 32; so bias */
  const float *bias;    /* or NULL */
  const int32_t *whole; /* a bias that is added to the sums: as many; or NULL */
  int32_t act;
  int32_t dtype; /* f32, bf16, f16; or i8, u8 with a scale and a zero point of their own */
  float y_scale;
  int32_t y_zero;
  void *y;
  int64_t y_row; /* in elements */
};

/* Bytes of scratch it needs, and running it there. */
int64_t rg_i8_room(const rg_i8_product *p);
rg_status rg_i8_multiply(const rg_i8_product *p, void *room) RG_CHECK;

/* Numbers at .. at + n of the bias of i32 that is input 4 of a call, for sums of k products, which
** it must not take out of i32. */
rg_status rg_i8_whole_bias(const rg_call *call, int64_t at, int64_t n, int64_t k,
                           int32_t *to) RG_CHECK;

/* For loops of one's own: the epilogue of rows i .. i + rows from column j on, of which each sum
** gets fix more; or of what is left. */
void rg_i8_finish(const rg_i8_product *p, const int32_t *sums, const int32_t *fix, int64_t i,
                  int64_t rows, int64_t j);
void rg_i8_finish_all(rg_i8_left *left);

/* Where the result of a row and a column lies. */
static inline void *rg_i8_at(const rg_i8_product *p, int64_t i, int64_t j)
{
  return (char *)p->y + (i * p->y_row + j) * rg_dtype_bytes(p->dtype);
}

/* Does rg_i8_rows_next finish the rows of the panel that begins at column j? */
static inline bool rg_i8_has_rows(const rg_i8_product *p, int64_t j)
{
  if (p->n - j < RG_PANEL) {
    return false;
  }
  return p->dtype == RG_F32
             ? p->act == RG_ACT_NONE
             : (p->dtype == RG_I8 || p->dtype == RG_U8) &&
                   (p->act == RG_ACT_NONE || p->act == RG_ACT_RELU || p->act == RG_ACT_RELU6);
}

/* Tiles one after the other; the epilogue of each runs beside the one behind it.  Begin with
** rg_i8_pipe_begin, and a panel with rg_i8_pipe_panel. */
typedef struct rg_i8_pipe {
  const rg_i8_product *p;
  const rg_i8_kernels *kernels;
  rg_i8_left left;
  const int8_t *b;             /* the panel */
  int64_t j;                   /* its first column */
  const char *next, *next_end; /* what will be read soon, a share of it with each tile; or NULL */
  int32_t turn;                /* of sums and fixes: what is left needs the others */
  int32_t turn_fix;
  int32_t fix[2][RG_PANEL];
  _Alignas(64) int32_t sums[2][RG_I8_ROWS_MOST * RG_PANEL];
} rg_i8_pipe;

void rg_i8_pipe_begin(rg_i8_pipe *pipe, const rg_i8_product *p);
void rg_i8_pipe_panel(rg_i8_pipe *pipe, int64_t panel);
void rg_i8_pipe_tile(rg_i8_pipe *pipe, const rg_i8_run *run, const uint8_t *a, const char *next,
                     int64_t i, int64_t rows);
/* Sums at .. end of those that run on between rows of results, of which the first is result i; a is
** what sum 0 sees.  So many rows that a tile takes no others than those before. */
void rg_i8_pipe_gaps(rg_i8_pipe *pipe, const rg_i8_run *run, const uint8_t *a, int64_t i,
                     int64_t at, int64_t end, const rg_i8_gaps *gaps);
/* After the last tile: what is left, and the tile registers are given back. */
void rg_i8_pipe_end(rg_i8_pipe *pipe);

#endif
