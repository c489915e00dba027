/* SPDX-License-Identifier: MIT */
/*
** Products of bytes against sums of whole numbers, in every bit: the tiles of every set of kernels
** that this machine runs, and whole products by every instruction set and number of threads.
*/
#include <stdlib.h>
#include <string.h>

#include "cpu/gemm_i8.h"
#include "ridge.h"
#include "tap.h"

static uint64_t state = 1;

static uint8_t byte(void)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint8_t)(state >> 40);
}

/* What factors are filled with: drawn, or one pair of extremes everywhere. */
enum { DRAWN = 0x1000 };
static void fill(uint8_t *x, int64_t n, int32_t with)
{
  for (int64_t i = 0; i < n; i++) {
    x[i] = with == DRAWN ? byte() : (uint8_t)with;
  }
}

/* -- The tiles with vectors of 256 bits, where only their other encoding runs ------------------ */

#if defined(__x86_64__)
#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#pragma GCC push_options
#pragma GCC target("avx2,avx512vl,avx512vnni")
#define VEC          __m256i
#define ROWS         6
#define LOAD(p)      _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, x)  _mm256_storeu_si256((__m256i *)(void *)(p), x)
#define ZERO()       _mm256_setzero_si256()
#define SPREAD(x)    _mm256_set1_epi32(x)
#define DOT(s, x, y) _mm256_dpbusd_epi32(s, x, y)
#define ADD(x, y)    _mm256_add_epi32(x, y)
#define NAMED(x)     x##_twin
#include "cpu/vnni_tile.h"
#pragma GCC pop_options

static void row_twin(uint8_t *to, const uint8_t *from, int64_t k, uint8_t flip)
{
  for (int64_t l = 0; l < k; l++) {
    to[l] = from[l] ^ flip;
  }
  memset(to + k, 0, (size_t)(-k & (RG_I8_STEP - 1)));
}

static const rg_i8_kernels twin = {
  .path = "twin",
  .tile = { NULL, tile_1_twin, tile_2_twin, tile_3_twin, tile_4_twin, tile_5_twin, tile_6_twin },
  .rows_most = 6,
  .width = 1,
  .row = row_twin,
};
#endif

/* -- Tiles ----------------------------------------------------------------------------------- */

enum { DEPTH_MOST = 300 };

/* b as panels hold it: what lies behind k in the last step has to meet zeros. */
static void pack_by_hand(const int8_t *b, int64_t k, int8_t *to)
{
  memset(to, 0, (size_t)(rg_i8_depth(k) * RG_I8_STEP * RG_PANEL));
  for (int64_t l = 0; l < k; l++) {
    for (int64_t j = 0; j < RG_PANEL; j++) {
      to[l / RG_I8_STEP * RG_PANEL * RG_I8_STEP + j * RG_I8_STEP + l % RG_I8_STEP] =
          b[l * RG_PANEL + j];
    }
  }
}

static bool tile_is_right(const rg_i8_kernels *kernels, int64_t rows, int64_t k, int32_t with_a,
                          int32_t with_b, uint8_t flip)
{
  static uint8_t a[RG_I8_ROWS_MOST * DEPTH_MOST];
  static uint8_t laid[RG_I8_ROWS_MOST * (2 * DEPTH_MOST + 64)];
  static int8_t b[DEPTH_MOST * RG_PANEL];
  static int8_t packed[(DEPTH_MOST + RG_I8_STEP) * RG_PANEL];
  int32_t c[RG_I8_ROWS_MOST * RG_PANEL];
  int64_t ld = rg_i8_depth(k) * RG_I8_STEP * kernels->width + 12;

  fill(a, rows * k, with_a);
  fill((uint8_t *)b, k * RG_PANEL, with_b);
  memset(laid, 0xff, sizeof(laid));
  pack_by_hand(b, k, packed);
  for (int64_t r = 0; r < rows; r++) {
    kernels->row(laid + r * ld, a + r * k, k, flip);
  }
  kernels->tile[rows](&(rg_i8_run){ .parts = 1, .steps = rg_i8_depth(k), .lda = ld }, laid, packed,
                      c, (const char *)packed);
  rg_i8_leave(kernels);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t j = 0; j < RG_PANEL; j++) {
      int32_t sum = 0;

      for (int64_t l = 0; l < k; l++) {
        sum += (int32_t)(uint8_t)(a[r * k + l] ^ flip) * b[l * RG_PANEL + j];
      }
      if (c[r * RG_PANEL + j] != sum) {
        printf("# row %lld, column %lld: %d, not %d\n", (long long)r, (long long)j,
               c[r * RG_PANEL + j], sum);
        return false;
      }
    }
  }
  return true;
}

static void try_tiles(const rg_i8_kernels *kernels, const char *what)
{
  static const int64_t depths[] = { 1,  2,  3,  4,  5,  7,  8,   12,  15, 16,
                                    17, 31, 63, 64, 65, 99, 128, 257, 300 };
  static const int32_t pairs[][2] = { { DRAWN, DRAWN }, { 255, -128 }, { 255, 127 },
                                      { 0, -128 },      { 128, -128 }, { DRAWN, -128 } };

  for (int64_t rows = 1; rows <= kernels->rows_most; rows++) {
    bool right = true;

    for (size_t d = 0; d < sizeof(depths) / sizeof(*depths); d++) {
      for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        right = right && tile_is_right(kernels, rows, depths[d], pairs[i][0], pairs[i][1], 0) &&
                tile_is_right(kernels, rows, depths[d], pairs[i][0], pairs[i][1], 0x80);
      }
    }
    printf("# %s, %lld rows\n", what, (long long)rows);
    ok(right, "a tile has the sums of whole numbers");
  }
}

/* What a kernel of a convolution sees: parts lie apart in a, rows overlap, b is in one piece. */
static bool parts_are_right(const rg_i8_kernels *kernels, int64_t rows, int64_t steps)
{
  enum { PARTS = 3, STEPS_MOST = 50, LDA = 8, APART = STEPS_MOST * RG_I8_STEP + 300 };
  static uint8_t a[PARTS * APART];
  static uint8_t laid[2 * PARTS * APART + 64];
  static int8_t b[PARTS * STEPS_MOST * RG_I8_STEP * RG_PANEL];
  static int8_t packed[PARTS * STEPS_MOST * RG_I8_STEP * RG_PANEL];
  int32_t c[RG_I8_ROWS_MOST * RG_PANEL];
  int64_t k = steps * RG_I8_STEP;
  bool right = true;

  fill(a, PARTS * APART, DRAWN);
  fill((uint8_t *)b, PARTS * k * RG_PANEL, DRAWN);
  kernels->row(laid, a, PARTS * APART, 0);
  pack_by_hand(b, PARTS * k, packed);
  kernels->tile[rows](&(rg_i8_run){ .parts = PARTS,
                                    .part = APART * kernels->width,
                                    .steps = steps,
                                    .lda = LDA * kernels->width },
                      laid, packed, c, (const char *)packed);
  rg_i8_leave(kernels);
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t j = 0; j < RG_PANEL; j++) {
      int32_t sum = 0;

      for (int64_t l = 0; l < PARTS * k; l++) {
        sum += a[l / k * APART + r * LDA + l % k] * b[l * RG_PANEL + j];
      }
      right = right && c[r * RG_PANEL + j] == sum;
    }
  }
  return right;
}

/* Sums of nothing, twice, others having used the tile registers between. */
static void try_nothing(const rg_i8_kernels *kernels)
{
  static const uint8_t a[64];
  static const int8_t b[64];
  int32_t c[RG_I8_ROWS_MOST * RG_PANEL];
  int64_t rows = kernels->rows_most;

  for (int turn = 0; turn < 2; turn++) {
    bool right = true;

    memset(c, 0x55, sizeof(c));
    kernels->tile[rows](&(rg_i8_run){ .parts = 1 }, a, b, c, (const char *)b);
    rg_i8_leave(kernels);
    for (int64_t i = 0; i < rows * RG_PANEL; i++) {
      right = right && c[i] == 0;
    }
    ok(right, "sums of no products are 0");
    if (rg_amx_usable()) {
      rg_amx_configure(3, 2, 4);
    }
  }
  if (rg_amx_usable()) {
    rg_amx_release();
  }
}

static void try_parts(const rg_i8_kernels *kernels)
{
  static const int64_t steps[] = { 1, 2, 3, 7, 8, 12, 13, 15, 16, 17, 24, 27, 31, 32, 48, 49, 50 };

  for (int64_t rows = 1; rows <= kernels->rows_most; rows++) {
    bool right = true;

    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
      right = right && parts_are_right(kernels, rows, steps[i]);
    }
    printf("# %s, %lld rows\n", kernels->path, (long long)rows);
    ok(right, "a tile over parts that lie apart has the sums of whole numbers");
  }
}

static void test_tiles(void)
{
  for (int32_t i = 0; rg_i8_kernels_at(i) != NULL; i++) {
    try_tiles(rg_i8_kernels_at(i), rg_i8_kernels_at(i)->path);
    try_parts(rg_i8_kernels_at(i));
    try_nothing(rg_i8_kernels_at(i));
  }
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl")) {
    try_tiles(&twin, "256 bits of AVX-512 VNNI");
  }
#endif
}

/* -- Whole products ---------------------------------------------------------------------------- */

static rg_tensor *bytes_of(const int8_t *from, int64_t rows, int64_t cols)
{
  rg_tensor *x = NULL;

  if (rg_empty(RG_I8, RG_CPU, (const int64_t[]){ rows, cols }, 2, &x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  memcpy(x->_data, from, (size_t)(rows * cols));
  return x;
}

/* Sums of so many bytes are whole numbers of f32 where they are below 2^24: k up to 1023. */
static bool product_is_right(int64_t m, int64_t n, int64_t k, int32_t with_a, int32_t with_b)
{
  int8_t *a = malloc((size_t)(m * k));
  int8_t *b = malloc((size_t)(n * k));
  rg_tensor *x, *w;
  rg_tensor *one = NULL;
  rg_tensor *y = NULL;
  bool right = true;

  fill((uint8_t *)a, m * k, with_a);
  fill((uint8_t *)b, n * k, with_b);
  x = bytes_of(a, m, k);
  w = bytes_of(b, n, k);
  if (rg_tensor_from_doubles((const double[]){ 1 }, 1, RG_F32, NULL, 0, &one) != RG_OK) {
    tap_bail(rg_error_message());
  }
  for (int turn = 0; turn < 3 && right; turn++) { /* packed for once, then kept, then found */
    rg_tensor_set_param(w, turn > 0);
    if (rg_scaled_linear(x, w, one, one, NULL, RG_ACT_NONE, RG_F32, &y) != RG_OK) {
      tap_bail(rg_error_message());
    }
    for (int64_t i = 0; i < m && right; i++) {
      for (int64_t j = 0; j < n && right; j++) {
        int32_t sum = 0;

        for (int64_t l = 0; l < k; l++) {
          sum += a[i * k + l] * b[j * k + l];
        }
        right = ((const float *)y->_data)[i * n + j] == (float)sum;
      }
    }
    rg_tensor_drop(y);
  }
  rg_tensor_drop(x);
  rg_tensor_drop(w);
  rg_tensor_drop(one);
  free(a);
  free(b);
  return right;
}

static void test_products(void)
{
  static const int64_t sizes[][3] = { { 1, 1, 1 },    { 1, 64, 64 },    { 1, 33, 3 },
                                      { 2, 31, 5 },   { 3, 100, 17 },   { 14, 32, 4 },
                                      { 15, 33, 67 }, { 29, 96, 1023 }, { 200, 65, 130 },
                                      { 7, 300, 31 }, { 700, 40, 600 }, { 64, 1, 2 } };
  static const int32_t pairs[][2] = {
    { DRAWN, DRAWN }, { -128, -128 }, { -128, 127 }, { 127, -128 }, { 127, 127 }
  };
  int32_t most = rg_machine_facts()->isa_level;
  int32_t threads = rg_threads();

  is_status(rg_set_gemm_path("own"), RG_OK, "own kernels");
  for (int32_t isa = 0; isa <= most; isa++) {
    is_status(rg_set_isa(isa), RG_OK, "an instruction set");
    for (int32_t n_threads = 1; n_threads <= 3; n_threads++) {
      bool right = true;

      is_status(rg_set_threads(n_threads), RG_OK, "threads");
      for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        for (size_t i = 0; i < (n_threads == 1 ? sizeof(pairs) / sizeof(*pairs) : 1); i++) {
          right = right &&
                  product_is_right(sizes[s][0], sizes[s][1], sizes[s][2], pairs[i][0], pairs[i][1]);
        }
      }
      printf("# instruction set %s, %d threads\n", rg_isa_name(isa), n_threads);
      ok(right, "products are sums of whole numbers");
    }
  }
  is_status(rg_set_isa(most), RG_OK, "back");
  is_status(rg_set_threads(threads), RG_OK, "back");
  is_status(rg_set_gemm_path("auto"), RG_OK, "back");
}

/* Columns with gaps are gathered in a room of each thread.  A room elsewhere would write over what
** is beside it in memory: blocks of its size are there, and keep what they hold. */
static void test_gathered(void)
{
  enum { M = 200, N = 100, K = 600, THREADS = 3, BLOCKS = 32 };
  static int8_t a[M * K];
  static int8_t b[K * N];
  const int64_t bytes = THREADS * K;
  int32_t threads = rg_threads();
  rg_block around[BLOCKS] = { 0 };
  rg_tensor *x, *w, *columns;
  rg_tensor *one = NULL;
  rg_tensor *y = NULL;
  int32_t changed = 0;
  bool right = true;

  fill((uint8_t *)a, M * K, DRAWN);
  fill((uint8_t *)b, K * N, DRAWN);
  x = bytes_of(a, M, K);
  w = bytes_of(b, K, N);
  if (rg_transpose(w, 0, 1, &columns) != RG_OK ||
      rg_tensor_from_doubles((const double[]){ 1 }, 1, RG_F32, NULL, 0, &one) != RG_OK) {
    tap_bail(rg_error_message());
  }
  is_status(rg_set_gemm_path("own"), RG_OK, "own kernels");
  is_status(rg_set_threads(THREADS), RG_OK, "threads");
  for (int32_t i = 0; i < BLOCKS; i++) {
    if (rg_block_alloc(RG_CPU, bytes, &around[i]) != RG_OK) {
      tap_bail(rg_error_message());
    }
    memset(around[i].data, i, (size_t)bytes);
  }
  for (int32_t i = 1; i < BLOCKS; i += 2) { /* the last that was given back is taken first */
    rg_block_free(&around[i]);
  }
  is_status(rg_scaled_linear(x, columns, one, one, NULL, RG_ACT_NONE, RG_F32, &y), RG_OK,
            "a product of columns that lie apart");
  for (int64_t i = 0; i < M && right; i++) {
    for (int64_t j = 0; j < N && right; j++) {
      int32_t sum = 0;

      for (int64_t l = 0; l < K; l++) {
        sum += a[i * K + l] * b[l * N + j];
      }
      right = ((const float *)y->_data)[i * N + j] == (float)sum;
    }
  }
  ok(right, "is a sum of whole numbers");
  for (int32_t i = 0; i < BLOCKS; i += 2) {
    for (int64_t k = 0; k < bytes; k++) {
      changed += ((const int8_t *)around[i].data)[k] != (int8_t)i;
    }
    rg_block_free(&around[i]);
  }
  is_int(changed, 0, "and no byte beside the rooms was written");
  rg_tensor_drop(y);
  rg_tensor_drop(columns);
  rg_tensor_drop(x);
  rg_tensor_drop(w);
  rg_tensor_drop(one);
  is_status(rg_set_threads(threads), RG_OK, "back");
  is_status(rg_set_gemm_path("auto"), RG_OK, "back");
}

/* -- What is kept ------------------------------------------------------------------------------ */

static void test_kept(void)
{
  int8_t bytes[8 * 6];
  rg_tensor *x, *w;
  rg_tensor *one = NULL;
  rg_tensor *y = NULL;

  for (int i = 0; i < 48; i++) {
    bytes[i] = (int8_t)(i - 20);
  }
  x = bytes_of(bytes, 1, 8);
  w = bytes_of(bytes, 6, 8);
  is_status(rg_tensor_from_doubles((const double[]){ 1 }, 1, RG_F32, NULL, 0, &one), RG_OK,
            "a scale");
  is_status(rg_set_gemm_path("own"), RG_OK, "own kernels");
  for (int turn = 0; turn < 3; turn++) {
    rg_tensor_set_param(w, turn > 0);
    is_status(rg_scaled_linear(x, w, one, one, NULL, RG_ACT_NONE, RG_F32, &y), RG_OK, "a product");
    rg_tensor_drop(y);
    ok((rg_derived_bytes(w->_storage) > 0) == (turn > 0),
       "what is said to be a weight is kept packed");
  }
  is_status(rg_fill_(w, 1), RG_OK, "it is written to");
  is_status(rg_scaled_linear(x, w, one, one, NULL, RG_ACT_NONE, RG_F32, &y), RG_OK, "a product");
  is_int(((const float *)y->_data)[5], -20 - 19 - 18 - 17 - 16 - 15 - 14 - 13, "of what it is now");
  rg_tensor_drop(y);
  rg_tensor_drop(x);
  rg_tensor_drop(w);
  rg_tensor_drop(one);
  is_status(rg_set_gemm_path("auto"), RG_OK, "back");
}

/* Two weights in one storage that differ in one stride or size alone are two: each is packed by its
** own. */
static void test_two_kept(void)
{
  static const rg_i8_weight ways[] = {
    { .n = 2, .n_step = 8, .size = { 1, 2, 4 }, .step = { 8, 4, 1 } },
    { .n = 2, .n_step = 8, .size = { 1, 2, 4 }, .step = { 8, 1, 2 } },
    { .n = 2, .n_step = 8, .size = { 2, 2, 2 }, .step = { 4, 2, 1 } },
    { .n = 2, .n_step = 8, .size = { 2, 2, 2 }, .step = { 1, 4, 2 } },
    { .n = 2, .n_step = 8, .size = { 2, 2, 2 }, .step = { 1, 2, 4 } },
    { .n = 2, .n_step = 4, .size = { 2, 2, 2 }, .step = { 1, 2, 4 } },
  };
  int8_t bytes[16];
  rg_tensor *w;

  for (int i = 0; i < 16; i++) {
    bytes[i] = (int8_t)(7 * i - 50);
  }
  w = bytes_of(bytes, 2, 8);
  for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
    rg_i8_weight one = ways[i];
    rg_i8_packed kept;
    rg_i8_packed aside;

    one.data = w->_data;
    one.storage = w->_storage;
    is_status(rg_i8_pack(&one, 1, &aside), RG_OK, "packed by itself");
    one.keeps = true;
    is_status(rg_i8_pack(&one, 1, &kept), RG_OK, "packed to be kept");
    ok(memcmp(kept.data, aside.data, (size_t)rg_i8_panel_bytes(8)) == 0, "the same");
    rg_i8_unpack(&aside);
    rg_i8_unpack(&kept);
  }
  rg_tensor_drop(w);
}

int main(void)
{
  test_tiles();
  test_products();
  test_gathered();
  test_kept();
  test_two_kept();
  return done();
}
