/* SPDX-License-Identifier: MIT */
/*
** Fixed signs from a seed, as bits: a block of 128 signs (op/draw.h) of 64 rows at a time.
*/
#include <string.h>

#include "cpu/signs.h"
#include "op/draw.h"
#include "op/signs.h"

typedef struct sign_work {
  uint64_t seed;
  uint32_t matrix;
  int64_t rows, cols;
  int64_t groups; /* of rows */
  uint8_t *to;
} sign_work;

enum { BLOCK_BYTES = RG_SIGNS_A_BLOCK / 8 };

/* The last block of a row as far as there are columns, zeros behind them. */
static void put_last(uint8_t *to, int64_t cols, const uint32_t x[4])
{
  for (int64_t i = 0; i < (cols + 7) / 8; i++) {
    to[i] = (uint8_t)(x[i / 4] >> (8 * (i % 4)));
  }
  if (cols % 8 != 0) {
    to[cols / 8] &= (uint8_t)((1 << (cols % 8)) - 1);
  }
}

static bool sign_job(void *work, int64_t begin, int64_t end)
{
  const sign_work *w = work;
  int64_t row_bytes = (w->cols + 7) / 8;
  uint32_t x[4 * RG_SIGN_ROWS];

  for (int64_t i = begin; i < end; i++) {
    int64_t row = i % w->groups * RG_SIGN_ROWS;
    int64_t n = rg_min_i64(RG_SIGN_ROWS, w->rows - row);
    int64_t block = i / w->groups;
    int64_t left = w->cols - block * RG_SIGNS_A_BLOCK;
    uint8_t *to = w->to + row * row_bytes + block * BLOCK_BYTES;

    if ((i & 1023) == 0 && rg_interrupt_pending()) {
      return false;
    }
    rg_simd()->random->signs(w->seed, w->matrix, (uint32_t)row, (uint32_t)block, n, x);
    for (int64_t k = 0; k < n; k++, to += row_bytes) {
      if (left >= RG_SIGNS_A_BLOCK) {
        memcpy(to, x + 4 * k, BLOCK_BYTES); /* little end first */
      } else {
        put_last(to, left, x + 4 * k);
      }
    }
  }
  return true;
}

rg_status rg_make_sign_bits(uint64_t seed, int32_t matrix, int64_t rows, int64_t cols, void *to)
{
  sign_work w = { .seed = seed,
                  .matrix = (uint32_t)matrix,
                  .rows = rows,
                  .cols = cols,
                  .groups = (rows + RG_SIGN_ROWS - 1) / RG_SIGN_ROWS,
                  .to = to };
  int64_t blocks = (cols + RG_SIGNS_A_BLOCK - 1) / RG_SIGNS_A_BLOCK;

  if (rows == 0 || cols == 0) {
    return RG_OK;
  }
  return rg_parallel(rg_threads_for(100.0 * (double)rows * (double)blocks), w.groups * blocks,
                     sign_job, &w);
}

uint64_t rg_seed_in(const rg_tensor *x)
{
  return (uint64_t) * (const int64_t *)x->_data;
}

rg_status rg_cpu_sign_bits(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  const rg_sign_args *args = call->args;

  (void)frame;
  return rg_make_sign_bits(rg_seed_in(call->in[0]), args->matrix, args->rows, args->cols,
                           out[0]->_data);
}
