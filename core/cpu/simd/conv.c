/* SPDX-License-Identifier: MIT */
/*
** Direct convolution of stride 1 over images with their padding around them.
**
** The rows of such an image lie one behind the other, so result f (row f / width, column f % width)
** reads each element of a kernel at one fixed distance from f: a channel's results are one run, and
** vectors need not end where rows do.  The columns at a row's end that no window begins at are
** computed and not used.  A tile of results, some channels by some vectors, is held in registers.
*/
#include "cpu/simd/simd.h"
#include "cpu/simd/vector.h"

/* Vectors of a tile by its channels: what fits into 32 registers, or into 16, where eight channels
** leave room for one vector and each product would wait for a load. */
#if defined(__AVX512F__)
enum { BY_8 = 3, BY_6 = 4, BY_4 = 4, BY_2 = 4, BY_1 = 4, MOST = 8 };
#else
enum { BY_8 = 1, BY_6 = 2, BY_4 = 3, BY_2 = 4, BY_1 = 4, MOST = 6 };
#endif

/* vectors x channels of sums, over all channels and elements of the kernel. */
ALWAYS_INLINE void tile(const rg_conv_run *r, float *y, const float *x, const float *w,
                        int channels, int vectors)
{
  vec sum[8][4];

  for (int o = 0; o < channels; o++) {
    for (int v = 0; v < vectors; v++) {
      sum[o][v] = (vec){ 0 };
    }
  }
  for (int64_t c = 0; c < r->channels; c++) {
    for (int64_t p = 0; p < r->rows; p++) {
      const float *from = x + c * r->plane + p * r->row_step;

      for (int64_t q = 0; q < r->columns; q++, from += r->column_step, w++) {
        vec at[4];

        for (int v = 0; v < vectors; v++) {
          at[v] = *(const vec *)(from + (ptrdiff_t)v * LANES);
        }
        for (int o = 0; o < channels; o++) {
          vec weight = splat(w[o * r->kernel]);

          for (int v = 0; v < vectors; v++) {
            sum[o][v] = fused(weight, at[v], sum[o][v]);
          }
        }
      }
    }
  }
  for (int o = 0; o < channels; o++) {
    for (int v = 0; v < vectors; v++) {
      *(vec *)(y + o * r->y_step + (ptrdiff_t)v * LANES) = sum[o][v];
    }
  }
}

#define TILES(N)                                                                        \
  static void tiles_##N(const rg_conv_run *r, float *y, const float *x, const float *w) \
  {                                                                                     \
    int64_t f = 0;                                                                      \
                                                                                        \
    for (; f + (ptrdiff_t)BY_##N * LANES <= r->n; f += (ptrdiff_t)BY_##N * LANES) {     \
      tile(r, y + f, x + f, w, N, BY_##N);                                              \
    }                                                                                   \
    for (; f < r->n; f += LANES) {                                                      \
      tile(r, y + f, x + f, w, N, 1);                                                   \
    }                                                                                   \
  }
TILES(1)
TILES(2)
TILES(4)
TILES(6)
TILES(8)

static void run(const rg_conv_run *r, float *y, const float *x, const float *w)
{
  for (int64_t o = 0; o < r->outs;) {
    int64_t left = r->outs - o;
    int64_t n = left >= 8 && MOST == 8   ? 8
                : left >= 6 && left != 8 ? 6
                : left >= 4              ? 4
                : left >= 2              ? 2
                                         : 1;

    (n == 8   ? tiles_8
     : n == 6 ? tiles_6
     : n == 4 ? tiles_4
     : n == 2 ? tiles_2
              : tiles_1)(r, y + o * r->y_step, x, w + o * r->kernel);
    o += n;
  }
}

extern const rg_simd_conv RG_SIMD_NAME(rg_simd_conv);
const rg_simd_conv RG_SIMD_NAME(rg_simd_conv) = { run };
