/* SPDX-License-Identifier: MIT */
/*
** ridge's own products: b packed in panels of 32 columns, sums in registers, the epilogue over each
** tile while it is in L1.
**
** Goto, van de Geijn: Anatomy of High-Performance Matrix Multiplication (TOMS 34, 2008), with b
** packed once per weight version instead of once per call, and a read where it lies.
*/
#ifndef RIDGE_CPU_GEMM_H
#define RIDGE_CPU_GEMM_H

#include "cpu/product.h"

enum {
  RG_PANEL = 32, /* columns of a panel, whatever the instruction set: packed copies outlive it */
  RG_ROWS_MOST = 14, /* rows of a tile: 14 x 2 sums, 2 factors and a broadcast are 31 registers */
  RG_AMX_ROWS = 32,  /* two tile registers of 16 rows */
  RG_BF16_STEP = 32  /* elements of the inner axis that packed bf16 comes in: a tile's row */
};

/* c[r, 0..31] (+)= sum_l a[r, l] b[l, 0..31]; strides in elements.  next: what will be read soon, a
** line of it is fetched into L2 every four steps (5 to 14 % where b is large). */
typedef void rg_tile_f32(int64_t k, const float *a, int64_t lda, const float *b, float *c,
                         int64_t ldc, bool add, const float *next);

/* A tile whose rows lie anywhere: c[r, 0..15] = act(bias + sum_t sum_l x[t, r][shift + l] b[t, l,
** 0..15]), plus what lies in c where it adds.  act: none, relu or relu6. */
enum { RG_GATHERED_COLUMNS = 16, RG_GATHERED_ROWS = 6 };
typedef struct rg_gather_tile {
  const float *const *x; /* by tap, then by row */
  int64_t taps, k, shift;
  const float *b; /* [taps x k x 16] */
  const float *bias;
  float *c;
  int64_t ldc;
  int32_t act;
  bool adds;
} rg_gather_tile;

/* What each instruction set brings (core/cpu/simd/gemm.c). */
typedef struct rg_gemm_kernels {
  rg_tile_f32 *tile[RG_ROWS_MOST + 1];   /* by rows; NULL from rows_most + 1 on */
  rg_tile_f32 *across[RG_ROWS_MOST + 1]; /* a[r + l * lda]: rows of a side by side */
  rg_tile_f32 *row;                      /* a product of one row */
  /* by rows; all NULL where vectors have not eight numbers */
  void (*gathered[RG_GATHERED_ROWS + 1])(const rg_gather_tile *t);
  int32_t rows_most;
  /* x = x * scale + bias, and act of that, which is none, relu or relu6, over rows of 32 */
  void (*affine)(float *x, int64_t rows, int64_t ldx, const float *bias, float scale, int32_t act);
  /* the same of rows side by side into rows of c, which are ldc apart, f32 or bf16 */
  void (*finish)(const float *x, int64_t rows, const float *bias, float scale, int32_t act, void *c,
                 int64_t ldc, int32_t dtype);
  /* y[i] = bit first + i of bits ? sign : -sign */
  void (*signs)(float *y, const uint8_t *bits, int64_t first, int64_t n, float sign);
  /* y[l * 32 + j] = x[j * ldx + l] for j < cols; columns from cols on are 0 */
  void (*transpose)(float *y, const float *x, int64_t ldx, int64_t k, int64_t cols);
  /* y[j] = sum_l x[l] w[j * ldw + l], both contiguous along l */
  void (*dots)(float *y, const float *x, const float *w, int64_t ldw, int64_t k, int64_t n);
  void (*dots_bf16)(float *y, const float *x, const uint16_t *w, int64_t ldw, int64_t k, int64_t n);
} rg_gemm_kernels;

/* The kernels of the instruction set in use. */
const rg_gemm_kernels *rg_gemm_kernels_now(void);

/* -- Packed weights ------------------------------------------------------------------ */

enum { RG_PACK_F32, RG_PACK_BF16 };

/* Elements of the inner axis, as packed: whole steps of the tile instruction for bf16. */
int64_t rg_pack_depth(int32_t format, int64_t k);

/* Bytes of one packed panel. */
int64_t rg_pack_panel_bytes(int32_t format, int64_t k);

/* Pack rows k0 .. k0+kn of panel number panel; kn a multiple of the step but at the end of k. */
void rg_pack_panel(const rg_weight *w, int32_t format, int64_t panel, int64_t k0, int64_t kn,
                   void *out);

/*
** The packed form of a weight that is kept, from its storage or made now and kept there.
**
** data     out: panels one after the other
*/
rg_status rg_pack_get(const rg_weight *w, int32_t format, int32_t n_threads,
                      const void **data) RG_CHECK;

/*
** The packed form of a matrix that is +-sign everywhere: for each panel and row one word, bit c set
** where column c is positive.  Kept like the others.
**
** sign     out: 0 if the matrix is not of that kind, which is kept as well
*/
rg_status rg_pack_get_signs(const rg_weight *w, int32_t n_threads, const uint32_t **words,
                            float *sign) RG_CHECK;

/* The words of one panel. */
void rg_pack_signs(const rg_weight *w, int64_t panel, uint32_t *words);

/* -- Products ------------------------------------------------------------------------- */

/* A product with everything decided. */
typedef struct rg_gemm {
  const rg_product *p;
  const rg_gemm_kernels *kernels;
  const void *a;      /* f32 or bf16, adjacent along k */
  int64_t lda;        /* distance of rows, or of steps where rows are adjacent */
  bool across;        /* they do (f32 only) */
  bool blocks;        /* and are so many steps long that they are copied, a block of rows at once */
  const void *b;      /* packed panels, or NULL: packed as they are used, */
  char *room;         /* each thread in its own place */
  int64_t room_bytes; /* of one thread */
  int32_t format;
  bool split_rows; /* threads share the rows; else the panels */
  /* the part with fixed signs */
  const uint16_t *f; /* f as matrices in bf16 that sum to it, part elements apart */
  int64_t ldf;
  int64_t part;
  int32_t n_parts;       /* 3 for f32, 1 for bf16 */
  const uint32_t *words; /* packed signs, or NULL: collected as they are used */
  float sign;
} rg_gemm;

/* The most rows of a tile, out of `most`, where rows are so many bytes apart. */
int64_t rg_gemm_rows_most(int64_t apart, int64_t most);

/* How many tiles of so many rows of a are multiplied by all panels before the next ones: half of L2
** keeps them until then (Goto and van de Geijn, Anatomy of high-performance matrix multiplication,
** 2008). */
int64_t rg_gemm_tiles_kept(int64_t rows, int64_t row_bytes);

/* Most steps of the inner axis that the f32 product packs at once. */
int64_t rg_gemm_depth(const rg_product *p);

/* Bytes each thread needs for its block of rows. */
int64_t rg_gemm_block_bytes(const rg_product *p);

/* Run this thread's part of n. */
void rg_gemm_f32(const rg_gemm *g, int32_t thread, int32_t n_threads);
void rg_gemm_bf16(const rg_gemm *g, int32_t thread, int32_t n_threads);
void rg_gemm_amx(const rg_gemm *g, int32_t thread, int32_t n_threads);
void rg_gemm_signs(const rg_gemm *g, int32_t thread, int32_t n_threads);

/* Bytes of room each thread of the last one needs. */
int64_t rg_gemm_signs_room(const rg_gemm *g);

/* The packed panel of a product in bf16, made now if it is not kept. */
const uint16_t *rg_gemm_panel_bf16(const rg_gemm *g, int64_t panel, int32_t thread);

/* Do products in bf16 take packed bf16, by RG_ISA_AVX512_BF16 or more?  And on tile registers? */
bool rg_bf16_usable(void);
bool rg_amx_usable(void);

/* Pack with vector instructions, from rows of f32: two rows of 32 become two rows of pairs. */
void rg_bf16_pack_rows(const float *row0, const float *row1, uint16_t *tile0, uint16_t *tile1);
/* Two rows of 32 numbers in bf16 already. */
void rg_bf16_pack_pairs(const uint16_t *row0, const uint16_t *row1, uint16_t *tile0,
                        uint16_t *tile1);
void rg_bf16_convert(const float *x, uint16_t *y, int64_t n);

/* c, [m x 32], (+)= m rows of a times a packed panel: so many steps of 32. */
void rg_bf16_rows(int64_t m, int64_t steps, const uint16_t *a, int64_t lda, const uint16_t *b,
                  float *c, int64_t ldc, bool add);

/* Tile registers for two tiles of r0 and r1 rows: 0 1 2 3 sums, 4 5 a, 6 7 b.  depth: 32 bit words
** of a row of a, so rows of b, 16 at most.  And back to none. */
void rg_amx_configure(int64_t r0, int64_t r1, int64_t depth);
void rg_amx_release(void);

/* c, [32 x 32], (+)= 32 rows of a times a packed panel: so many steps of 32.  Tiles of 16 and 16
** rows are configured. */
void rg_amx_block(int64_t steps, const uint16_t *a, int64_t lda, const uint16_t *b, float *c,
                  int64_t ldc, bool add);

/* Words of signs, one for each of k rows, as packed tiles of +-1 in bf16. */
void rg_amx_expand(const uint32_t *words, int64_t k, uint16_t *tiles);

/* x as a sum of three numbers in bf16, exactly; they lie part elements apart. */
void rg_amx_split(const float *x, uint16_t *y, int64_t part, int64_t n);

/* Finish a tile of sums, rows ldx apart, 32 columns wide, and store what lies inside c. */
void rg_gemm_epilogue(const rg_gemm *g, float *x, int64_t ldx, int64_t i, int64_t rows, int64_t j);

#endif
